# SPDX-License-Identifier: MIT
#
# What holds for every target of the tree: the language, the warnings, the sanitizers.
# Targets opt in with target_link_libraries(x PRIVATE gradwire_options); a header of
# ours that a foreign project compiles never drags these flags along.

option(GRADWIRE_TESTS "Build the tests" ON)
option(GRADWIRE_WERROR "Warnings are errors (dev presets and CI, not a user's build)" OFF)
set(GRADWIRE_SANITIZE "" CACHE STRING "address,undefined | thread | empty")
option(GRADWIRE_FUZZ "Build the libFuzzer targets (needs clang)" OFF)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

# Assertions stay on in every build.
foreach(type RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${type} "${CMAKE_C_FLAGS_${type}}")
endforeach()

add_library(gradwire_options INTERFACE)
target_compile_options(gradwire_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wcast-align
  -Wpointer-arith -Wwrite-strings -Wstrict-prototypes -Wmissing-prototypes -Wredundant-decls
  -Wundef -Wvla -Wswitch-enum -Wformat=2 -Wdouble-promotion -Wnull-dereference
  $<$<C_COMPILER_ID:GNU>:-Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init>
  -fno-omit-frame-pointer)
if(GRADWIRE_WERROR)
  target_compile_options(gradwire_options INTERFACE -Werror)
endif()
if(GRADWIRE_SANITIZE)
  target_compile_options(gradwire_options INTERFACE
    -fsanitize=${GRADWIRE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(gradwire_options INTERFACE -fsanitize=${GRADWIRE_SANITIZE})
endif()
