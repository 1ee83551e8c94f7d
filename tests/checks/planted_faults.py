#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prove that the checks can fail: plant one fault at a time in a copy of the tree.

usage: planted_faults.py BUILD_DIRECTORY C_COMPILER
Each case first sees the check pass on the untouched copy, so that the report is about
the planted fault and nothing else, then asserts that the report names it.
"""
import contextlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("cmake", "cluster", "coordinator", "nn", "node", "rdt", "tests", "tools")
SPDX = "/* SPDX-License-Identifier: MIT */\n"
failures = []
cases = 0


def run(root, command):
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, check=False)
    return done.returncode, done.stdout


def expect_pass(what, root, command):
    status, output = run(root, command)
    if status != 0:
        failures.append(f"{what}: the check fails on the untouched tree:\n{output}")
    return status == 0


def expect_fault(what, root, command, message):
    global cases
    cases += 1
    status, output = run(root, command)
    if status == 0:
        failures.append(f"{what}: not noticed")
    elif message not in output:
        failures.append(f"{what}: noticed, but the report does not say '{message}':\n{output}")


@contextlib.contextmanager
def planted(path, text):
    """The file holds the text for as long as the block runs."""
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    yield
    if before is None:
        path.unlink()
    else:
        path.write_bytes(before)


def with_include(path, line):
    return path.read_text().replace(SPDX, SPDX + line + "\n", 1)


def layers(root):
    command = ["tools/layers.py"]
    if not expect_pass("layers", root, command):
        return
    core = "rdt/core/" + sorted(p.name for p in (root / "rdt/core").glob("*.c"))[0]
    uring = "rdt/uring/" + sorted(p.name for p in (root / "rdt/uring").glob("*.c"))[0]
    for file, include, message in (
            (core, "#include <sys/socket.h>", "rdt/core/ is not allowed <sys/socket.h>"),
            (core, "#include <time.h>", "rdt/core/ is not allowed <time.h>"),
            (core, "#include <stdio.h>", "rdt/core/ is not allowed <stdio.h>"),
            (core, "#include <rdt/uring.h>", "<rdt/uring.h> may only be included by"),
            (core, '#include "cluster/host.h"', "rdt/core/ must not depend on cluster/"),
            (uring, '#include "../core/frame.h"', "rdt/uring/ must not depend on rdt/core/"),
            ("nn/src/gemm.c", "#include <rdt/rdt.h>", "nn/src/ must not depend on rdt/include/"),
            ("nn/src/gemm.c", "#include <pthread.h>", "<pthread.h> may only be included by"),
            ("nn/src/gemm.c", "#include <netdb.h>", "<netdb.h>"),
            ("cluster/host.c", "#include <nn/nn.h>", "must not depend on nn/include/"),
            ("cluster/host.c", "#include <liburing.h>", "<liburing.h> may only be included by"),
            ("cluster/host.c", '#include "coordinator/coord.h"', "must not depend on coordinator/"),
            ("coordinator/coord.c", "#include <pthread.h>", "<pthread.h> may only be included by"),
            ("coordinator/coord.c", "#include <time.h>", "is not allowed <time.h>"),
            ("coordinator/main.c", "#include <xxhash.h>", "<xxhash.h> may only be included by"),
            ("coordinator/main.c", "#include <jansson.h>", "<jansson.h> may only be included by"),
            ("coordinator/main.c", '#include "node/worker.h"', "must not depend on node/"),
            ("node/worker.c", "#include <unistd.h>", "is not allowed <unistd.h>"),
            ("node/worker.c", "#include <stdio.h>", "is not allowed <stdio.h>"),
            ("node/main.c", '#include "rdt/core/frame.h"', "must not depend on rdt/core/")):
        path = root / file
        with planted(path, with_include(path, include)):
            expect_fault(f"{include} in {file}", root, command, message)

    with planted(root / "extra/stray.c", SPDX):
        expect_fault("a C file outside every layer", root, command, "belongs to no layer")
    first, second = root / "cluster/first.h", root / "cluster/second.h"
    with planted(first, '#include "second.h"\n'), planted(second, '#include "first.h"\n'):
        expect_fault("a cycle of headers", root, command, "include cycle")
    hidden = root / "hidden"
    (root / "nn/src").rename(hidden)
    expect_fault("a layer without files", root, command, "nn/src/: no file in this layer")
    hidden.rename(root / "nn/src")
    with tempfile.TemporaryDirectory() as empty:
        expect_fault("an empty tree", empty, [str(root / "tools/layers.py")], "no file in this layer")


def style(root):
    command = ["tools/style.py"]
    if not expect_pass("style", root, command):
        return
    statements = "    f();\n"
    for what, text, message in (
            ("a function of 71 lines", SPDX + "void f(void)\n{\n" + statements * 71 + "}\n",
             "function of 71 lines"),
            ("a file of 601 lines", SPDX + "\n" * 600, "601 lines"),
            ("a file without its licence line", "int x;\n", "the first line is not"),
            ("dead code", SPDX + "#if 0\nint x;\n#endif\n", "#if 0"),
            ("an unfinished word", SPDX + "/* TO" + "DO later */\n", "means unfinished"),
            ("a test that asserts nothing", SPDX + "START_TEST(a__b)\n{\n}\nEND_TEST\n",
             "a test without an assertion")):
        with planted(root / "cluster/planted.c", text):
            expect_fault(what, root, command, message)
    with planted(root / "cluster/planted.c", SPDX + "void f(void)\n{\n" + statements * 70 + "}\n"):
        expect_pass("a function of 70 lines", root, command)
    with tempfile.TemporaryDirectory() as empty:
        expect_fault("an empty tree", empty, [str(root / "tools/style.py")], "no source file found")


def layout(root):
    if shutil.which("clang-format") is None:
        print("planted_faults: no clang-format here, layout not tried")
        return
    with planted(root / "cluster/planted.c", SPDX + "int  x ;\n"):
        expect_fault("a file in another layout", root, ["tools/check", "format"],
                     "clang-format-violations")


def symbols(root, build, compiler):
    """The objects of the real build, and one more that calls what it must not."""
    command = ["tools/symbols.sh", str(build)]
    if not expect_pass("symbols", root, command):
        return
    copy = root / "objects"
    for part in ("rdt", "nn", "cluster", "coordinator", "node"):
        for path in (build / part).rglob("*.c.o"):
            target = copy / path.relative_to(build)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    command = ["tools/symbols.sh", str(copy)]
    expect_pass("symbols of the copied objects", root, command)

    def evil(where, name, call):
        source = root / "evil.c"
        source.write_text(f"int {call}();\nint evil(void);\nint evil(void)\n{{\n"
                          f"    return {call}();\n}}\n")
        target = where / name
        before = target.read_bytes() if target.exists() else None
        subprocess.run([compiler, "-w", "-fno-builtin", "-c", str(source), "-o", str(target)], check=True)
        expect_fault(f"{call}() in {target.relative_to(copy)}", root, command, f"  {call}, in {name}")
        if before is None:
            target.unlink()
        else:
            target.write_bytes(before)

    def home(part, file):
        return next((copy / part).rglob(file)).parent

    core, nn_home = home("rdt", "frame.c.o"), home("nn", "gemm.c.o")
    for call in ("socket", "clock_gettime", "printf", "exit", "getrandom", "pthread_mutex_lock"):
        evil(core, "planted.c.o", call)
    for call in ("socket", "sendto", "rdt_send", "pthread_create", "rand"):
        evil(nn_home, "planted.c.o", call)
    evil(home("cluster", "host.c.o"), "planted.c.o", "recvmsg")
    evil(home("coordinator", "coord.c.o"), "coord.c.o", "clock_gettime")
    evil(home("coordinator", "coord.c.o"), "coord.c.o", "pthread_create")
    evil(home("node", "worker.c.o"), "worker.c.o", "fopen")
    shutil.rmtree(copy / "nn")
    expect_fault("a missing library", root, command, "symbols: nn: no object file")
    with tempfile.TemporaryDirectory() as empty:
        expect_fault("an empty build", root, ["tools/symbols.sh", empty], "rdt/core: no object file")


def options(root, compiler):
    """Warnings fail the build where they should, and assertions live in a release."""
    project = root / "mini"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(mini C)\n"
        f"include({root}/cmake/options.cmake)\nadd_executable(mini mini.c)\n"
        "target_link_libraries(mini PRIVATE gradwire_options)\n")
    build = ["cmake", "--build", "mini/b"]
    (project / "mini.c").write_text(
        "#include <assert.h>\nint main(int argc, char **argv)\n{\n    (void)argv;\n"
        "    assert(argc > 1);\n    return 0;\n}\n")
    configure = ["cmake", "-S", "mini", "-B", "mini/b", f"-DCMAKE_C_COMPILER={compiler}",
                 "-DCMAKE_BUILD_TYPE=Release", "-DGRADWIRE_WERROR=ON"]
    if not expect_pass("options", root, configure) or not expect_pass("options", root, build):
        return
    expect_fault("a false assertion in a release build", root, ["mini/b/mini"], "argc > 1")
    (project / "mini.c").write_text("int main(int argc, char **argv)\n{\n    short n = argc;\n"
                                    "    (void)argv;\n    return n;\n}\n")
    expect_fault("a silent conversion", root, build, "conversion")


def main():
    build, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        for part in PARTS:
            shutil.copytree(SOURCE / part, root / part, ignore=shutil.ignore_patterns("build*"))
        shutil.copy(SOURCE / ".clang-format", root)
        layers(root)
        style(root)
        layout(root)
        symbols(root, build, compiler)
        options(root, compiler)
    for failure in failures:
        print(failure)
    print(f"planted_faults: {cases} faults planted, {len(failures)} trouble")
    return 1 if failures or cases < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
