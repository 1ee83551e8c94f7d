#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The C code that rdt/README.md shows is code of rdt/examples, so it compiles and runs."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
examples = "\n".join(p.read_text() for p in sorted(root.glob("rdt/examples/*.c")))
blocks = re.findall(r"```c\n(.*?)```", (root / "rdt/README.md").read_text(), re.DOTALL)
missing = [block for block in blocks if block not in examples]
for block in missing:
    print(f"rdt/README.md shows what no example contains:\n{block}")
print(f"{len(blocks)} blocks, {len(missing)} not found")
sys.exit(1 if missing or not blocks else 0)
