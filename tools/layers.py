#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that every #include obeys the map of docs/architecture.md.

Run from the root of the tree.  A layer is a path prefix.  A file may include its own
layer, the layers its row names, and the system headers its row names (ANY: all of them).
The longest prefix wins, so one file may have a row of its own.  A C file outside every
layer is a fault, and so is a layer without a file: a check that looked at nothing must
not say that all is well.
"""
import pathlib
import posixpath
import re
import sys

PURE = {"assert.h", "errno.h", "float.h", "inttypes.h", "limits.h", "math.h", "stdalign.h",
        "stdbool.h", "stddef.h", "stdint.h", "stdlib.h", "string.h"}
FILES = PURE | {"stdio.h"}
TEXT = FILES | {"stdarg.h"}
ANY = {"*"}

PUBLIC = {"rdt/include/", "nn/include/"}

LAYERS = {
    # prefix                may include layers               may include <system>
    "rdt/include/":         (set(),                          PURE),
    "rdt/core/":            ({"rdt/include/"},               PURE),
    "rdt/uring/":           ({"rdt/include/"},               ANY),
    "rdt/examples/":        ({"rdt/include/"},               ANY),
    "nn/include/":          (set(),                          FILES),
    "nn/src/":              ({"nn/include/"},                TEXT),
    "nn/src/file.c":        ({"nn/src/", "nn/include/"},     TEXT | {"fcntl.h", "sys/stat.h", "unistd.h"}),
    "cluster/":             ({"rdt/include/"},               TEXT),
    "cluster/host.c":       ({"cluster/", "rdt/include/"},   ANY),
    "coordinator/":         ({"cluster/"} | PUBLIC,          ANY),
    # In one process the coordinator computes with the threads of a node itself.
    "coordinator/matmul_local.c": ({"coordinator/", "cluster/", "node/"} | PUBLIC, ANY),
    "coordinator/local.c":  ({"coordinator/", "cluster/", "node/"} | PUBLIC, ANY),
    "node/":                ({"cluster/"} | PUBLIC,          ANY),
    "tests/":               ({"rdt/", "nn/", "cluster/", "coordinator/", "node/"}, ANY),
    "tools/":               ({"cluster/"} | PUBLIC,          ANY),
}
# The step functions: no clock, socket, file or thread.
for stem in ("assign", "commit", "coord", "members", "product", "product_check", "product_members",
             "product_deal", "reduce"):
    LAYERS[f"coordinator/{stem}.c"] = ({"coordinator/", "cluster/"} | PUBLIC, PURE)
for stem in ("buffers", "matrix", "work", "worker"):
    LAYERS[f"node/{stem}.c"] = ({"node/", "cluster/"} | PUBLIC, PURE)

# One door per outside thing: the header, and the only files that may include it.
DOORS = {
    "liburing.h":  ("rdt/uring/", "tests/"),
    "xxhash.h":    ("rdt/core/frame.c", "nn/src/hash.c", "cluster/hash.c", "tests/"),
    "sodium.h":    ("rdt/core/seal.c", "cluster/token.c", "tests/"),
    "cblas.h":     ("nn/src/gemm.c", "tests/"),
    "dlfcn.h":     ("nn/src/gemm.c", "tests/"),
    "cpuid.h":     ("nn/src/cpu.c",),
    "zlib.h":      ("nn/src/idx.c", "tests/"),
    "jansson.h":   ("cluster/config.c", "nn/src/spec.c", "tests/"),
    "check.h":     ("tests/",),
    "pthread.h":   ("cluster/host.c", "node/compute.c", "tests/"),
    "threads.h":   (),
    "rdt/uring.h": ("rdt/uring/", "rdt/examples/", "cluster/host.c", "tools/", "tests/"),
}

# Where an #include "name" is looked for, after the directory of the file itself.
ROOTS = ("", "rdt/include/", "nn/include/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
NOT_OURS = re.compile(r"build.*|runs|node_modules|\..*")


def layer_of(path):
    return max((p for p in LAYERS if path.startswith(p)), key=len, default=None)


def resolve(name, here, known):
    for base in (str(here.parent) + "/",) + ROOTS:
        path = posixpath.normpath(base + name)
        if path in known:
            return path
    return None


def tree():
    for path in pathlib.Path(".").rglob("*.[ch]"):
        if not any(NOT_OURS.fullmatch(part) for part in path.parts[:-1]):
            yield path.as_posix()


def faults_of(path, known, graph):
    mine = layer_of(path)
    if mine is None:
        yield f"{path}: belongs to no layer: give it a row in tools/layers.py"
        return
    layers, system = LAYERS[mine]
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match[2]
        target = resolve(name, pathlib.PurePosixPath(path), known)
        where = f"{path}:{number}"
        if name in DOORS and not path.startswith(DOORS[name]):
            doors = ", ".join(DOORS[name]) or "no file"
            yield f"{where}: <{name}> may only be included by {doors}"
        if target:
            graph.setdefault(path, set()).add(target)
            theirs = layer_of(target)
            if theirs != mine and not any(theirs.startswith(layer) for layer in layers):
                yield f"{where}: {mine} must not depend on {theirs} ({target})"
        elif name not in DOORS and "*" not in system and name not in system:
            yield f"{where}: {mine} is not allowed <{name}>"


def cycles(graph):
    found, state = [], {}

    def visit(path, trail):
        state[path] = "open"
        for target in sorted(graph.get(path, ())):
            if state.get(target) == "open":
                found.append("include cycle: " + " -> ".join(trail + [path, target]))
            elif target not in state:
                visit(target, trail + [path])
        state[path] = "done"

    for path in sorted(graph):
        if path not in state:
            visit(path, [])
    return found


def main():
    files = sorted(tree())
    known, graph, faults = set(files), {}, []
    present = {layer_of(path) for path in files}
    for layer in LAYERS:
        if layer not in present:
            faults.append(f"{layer}: no file in this layer: moved, or not the root of the tree")
    for path in files:
        faults += faults_of(path, known, graph)
    faults += cycles(graph)
    print("\n".join(faults) or f"layers: {len(files)} files, no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
