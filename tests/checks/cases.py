#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every test that docs/cases.md names exists, and every row names one.

cases.py BUILD: asks the ctest of a build which tests there are.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([TBG]\d\d) \| (.+) \| (.+) \|$")
NAME = re.compile(r"`([a-z]\w+(?:::\w+)?)`")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    listed = subprocess.run(["ctest", "--test-dir", sys.argv[1], "-N"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    registered = set(re.findall(r"Test +#\d+: (\w+)", listed))
    written = set()
    for path in (ROOT / "tests").rglob("*.c"):
        written |= set(re.findall(r"^START_TEST\((\w+)\)", path.read_text(), re.M))
    faults, rows = [], {}
    for number, line in enumerate((ROOT / "docs/cases.md").read_text().splitlines(), 1):
        row = ROW.match(line)
        if not row:
            continue
        names = NAME.findall(row[3])
        if not names or row[1] in rows:
            faults.append(f"docs/cases.md:{number}: {row[1]} has no test, or two rows")
        rows[row[1]] = names
        for name in names:
            program, _, test = name.partition("::")
            if program not in registered or (test and test not in written):
                faults.append(f"docs/cases.md:{number}: {row[1]}: there is no test {name}")
    if len(rows) < 40:
        faults.append(f"docs/cases.md: only {len(rows)} rows were understood")
    print("\n".join(faults) or f"cases: {len(rows)} cases, {len(set(sum(rows.values(), [])))} tests")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
