#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nn-bench answers as its help says, and the network it times learns.  No time is judged."""
import json
import os
import subprocess
import sys

SKIPPED = 77
DATA = "/usr/share/datasets/fashion-mnist"
bench = os.environ["GRADWIRE_BIN"] + "/nn-bench"


def run(*args):
    return subprocess.run([bench, *args], capture_output=True, text=True)


def main():
    for args in ([], ["train", "--model"], ["train", "--model", "none"], ["train", "--opt", "none"],
                 ["train", "--batch", "0"], ["train", "--threads", "2"], ["gemm"], ["bake"],
                 ["gemm", "--shape", "3x0x3"], ["train", "--what", "1"]):
        done = run(*args)
        assert done.returncode == 2, (args, done)
        assert done.stdout == "" and len(done.stderr.splitlines()) == 1, (args, done)
    missing = run("train", "--data", "/nonexistent")
    assert missing.returncode == 1 and "/nonexistent" in missing.stderr, missing

    gemm = json.loads(run("gemm", "--shape", "33x17x65", "--secs", "0.01").stdout)
    assert gemm["gflops"] > 0, gemm
    if not os.path.isdir(DATA):
        print(f"skipped: no {DATA} (package dataset-fashion-mnist)")
        return SKIPPED
    for opt in ("sgd", "momentum", "adam"):
        train = json.loads(run("train", "--model", "udp200", "--opt", opt, "--secs", "0.1").stdout)
        assert train["sps"] > 0 and train["cpu_sps"] > 0, train
        assert train["last_loss"] < train["first_loss"], train
    return 0


if __name__ == "__main__":
    sys.exit(main())
