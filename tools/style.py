#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check what the formatter and the compiler do not.  Run from the root of the tree.

Sizes (a function fits a screen, a file holds one noun), the licence line, words that
mean unfinished, and tests that assert nothing.
"""
import pathlib
import re
import sys

ROOTS = ("rdt", "nn", "cluster", "coordinator", "node", "tests", "tools")
SPDX = "/* SPDX-License-Identifier: MIT */"
FUNCTION_LINES = 70
FILE_LINES = 600
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))")
NUMBERED = re.compile(r"\bTODO\(#\d+\)")


def faults_of(path, text):
    lines = text.splitlines()
    if not lines or lines[0] != SPDX:
        yield f"{path}:1: the first line is not {SPDX}"
    if len(lines) > FILE_LINES:
        yield f"{path}: {len(lines)} lines, the limit is {FILE_LINES}: look for the second noun"
    start = 0
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line) and not NUMBERED.search(line):
            yield f"{path}:{number}: a word that means unfinished, without an issue number"
        if re.match(r"\s*#\s*if\s+0\b", line):
            yield f"{path}:{number}: dead code under #if 0"
        if line == "{":
            start = number
        elif line == "}" and start:
            # The brace lines themselves are not the function's work.
            if number - start - 1 > FUNCTION_LINES:
                yield f"{path}:{start}: function of {number - start - 1} lines, the limit is {FUNCTION_LINES}"
            start = 0
    if "START_TEST" in text and not re.search(r"\bck_assert|\bassert\(|\bck_abort|\b(check|expect)_", text):
        yield f"{path}: a test without an assertion"


def main():
    files = sorted(p for root in ROOTS for p in pathlib.Path(root).rglob("*.[ch]")
                   if not any(part.startswith("build") for part in p.parts))
    if not files:
        print("style: no source file found: run from the root of the tree")
        return 1
    faults = [fault for path in files for fault in faults_of(path, path.read_text())]
    print("\n".join(faults) or f"style: {len(files)} files, no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
