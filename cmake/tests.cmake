# SPDX-License-Identifier: MIT
#
# gradwire_test(NAME test_x SOURCES a.c... LIBS lib... [ARGS a...] [LABELS l...] [TIMEOUT seconds])
#
# Builds one Check program and registers it with ctest.  The program may include any
# header of the tree by its path from the root ("rdt/core/rtt.h").  Exit 77 means skipped.
# In its environment: GRADWIRE_BIN, the directory of the programs; GRADWIRE_SOURCE, the
# root of the tree.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)

# After gradwire_options: Check's float assertions print a float as a double.
add_library(gradwire_test_options INTERFACE)
target_compile_options(gradwire_test_options INTERFACE -Wno-double-promotion)

function(gradwire_test)
  cmake_parse_arguments(PARSE_ARGV 0 T "" "NAME;TIMEOUT" "SOURCES;LIBS;ARGS;LABELS")
  if(T_UNPARSED_ARGUMENTS OR NOT T_NAME OR NOT T_SOURCES)
    message(FATAL_ERROR "gradwire_test: bad arguments: ${ARGV}")
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  target_include_directories(${T_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} gradwire_options
    gradwire_test_options PkgConfig::CHECK Threads::Threads m rt)
  # Beside build/bin, not in it: a user looking for the programs should see only those.
  set_target_properties(${T_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin-tests)
  add_test(NAME ${T_NAME} COMMAND ${T_NAME} ${T_ARGS})
  gradwire_test_properties(${T_NAME} "${T_TIMEOUT}" ${T_LABELS})
endfunction()

# The same frame for a test that is a script: gradwire_script_test(NAME n COMMAND cmd arg...).
function(gradwire_script_test)
  cmake_parse_arguments(PARSE_ARGV 0 T "" "NAME;TIMEOUT" "COMMAND;LABELS")
  if(T_UNPARSED_ARGUMENTS OR NOT T_NAME OR NOT T_COMMAND)
    message(FATAL_ERROR "gradwire_script_test: bad arguments: ${ARGV}")
  endif()
  add_test(NAME ${T_NAME} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  gradwire_test_properties(${T_NAME} "${T_TIMEOUT}" ${T_LABELS})
endfunction()

function(gradwire_test_properties name timeout)
  if(NOT timeout)
    set(timeout 60)
  endif()
  if(GRADWIRE_SANITIZE)
    math(EXPR timeout "4 * ${timeout}")
  endif()
  # Check ends a single test after 4 s by default, which a sanitizer run exceeds.
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${timeout}
    SKIP_RETURN_CODE 77
    LABELS "${ARGN}"
    ENVIRONMENT "CK_DEFAULT_TIMEOUT=${timeout};GRADWIRE_BIN=${PROJECT_BINARY_DIR}/bin;GRADWIRE_SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()
