# SPDX-License-Identifier: MIT
"""What the end-to-end tests share: a small data set, the two programs, and ways to look at a run.

Everything happens in a temporary directory and on the loopback interface.  Programs are ended by
their process id alone.
"""
import gzip
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("GRADWIRE_BIN", ROOT / "build/bin")).resolve()
COORDINATOR = str(BIN / "gradwire-coordinator")
NODE = str(BIN / "gradwire-node")
SIDE = 10  # images of SIDE x SIDE
CLASSES = 5
PATIENCE = 60  # seconds for anything that should end by itself


def fail(text):
    raise AssertionError(text)


def check(condition, text):
    if not condition:
        fail(text)


def write_idx(path, dims, payload):
    data = struct.pack(">HBB", 0, 8, len(dims)) + struct.pack(f">{len(dims)}I", *dims) + payload
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wb") as file:
        file.write(data)


def make_set(directory, name, count, seed):
    """Noisy images: a class is a bright row.  Learnable, and different for every seed."""
    rng = random.Random(seed)
    images, labels = bytearray(), bytearray()
    for _ in range(count):
        label = rng.randrange(CLASSES)
        image = bytearray(value // 2 for value in rng.randbytes(SIDE * SIDE))
        for x in range(SIDE):
            image[2 * label * SIDE + x] = 128 + rng.randrange(128)
        images += image
        labels.append(label)
    write_idx(directory / f"{name}-images.gz", (count, SIDE, SIDE), bytes(images))
    write_idx(directory / f"{name}-labels.gz", (count,), bytes(labels))


class Place:
    """A temporary directory with data and a configuration."""

    def __init__(self, train=600, test=300, **train_keys):
        self.temporary = tempfile.TemporaryDirectory(prefix="gradwire-e2e-")
        self.path = pathlib.Path(self.temporary.name)
        make_set(self.path, "train", train, 1)
        make_set(self.path, "test", test, 2)
        self.config = {
            "model": {"input": [SIDE * SIDE],
                      "layers": [{"dense": 48}, "relu", {"dense": CLASSES}],
                      "loss": "cross_entropy"},
            "data": {"train": {"images": "train-images.gz", "labels": "train-labels.gz"},
                     "test": {"images": "test-images.gz", "labels": "test-labels.gz"}},
            "train": {"epochs": 2, "batch": 64, "leaf": 8, "seed": 5,
                      "optimizer": {"name": "momentum", "lr": 0.1}, **train_keys},
        }
        self.running = []
        self.write()

    def write(self):
        (self.path / "run.json").write_text(json.dumps(self.config, indent=2))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.temporary.cleanup()

    def start(self, *command, log=None, **keys):
        """A process whose stderr goes to a file (its path is process.log)."""
        number = len(self.running)
        path = self.path / (log or f"log-{number}.txt")
        with open(path, "wb") as file:
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                       stderr=file, cwd=self.path, **keys)
        process.log = path
        self.running.append(process)
        return process

    def coordinator(self, *words, **keys):
        return self.start(COORDINATOR, *words, **keys)

    def node(self, port, *words, **keys):
        return self.start(NODE, "--join", f"127.0.0.1:{port}", "--threads", 1, *words, **keys)

    def train(self, out, *words, expect=0):
        """Runs to the end.  Returns (stdout, stderr)."""
        process = self.coordinator("train", "run.json", "--out", out, *words)
        return finish(process, expect)

    def summary(self, out):
        return json.loads((self.path / out / "summary.json").read_text())

    def steps(self, out):
        lines = (self.path / out / "run.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def events(self, out):
        return (self.path / out / "events.log").read_text()

    def hash(self, out):
        """weights_xxh3, recomputed from model.safetensors."""
        model = self.path / out / "model.safetensors"
        return subprocess.run([COORDINATOR, "hash", str(model)], capture_output=True, text=True,
                              check=True).stdout.strip()


def finish(process, expect=0, within=PATIENCE):
    try:
        out, _ = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        process.kill()
        fail(f"still running after {within} s: {process.args}\n{process.log.read_text()}")
    error = process.log.read_text()
    check(process.returncode == expect,
          f"exit {process.returncode}, expected {expect}: {process.args}\n{error}")
    return out.decode(), error


def wait_for(process, pattern, within=PATIENCE):
    """Until the process has said this on stderr.  Returns the match."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        match = re.search(pattern, process.log.read_text())
        if match:
            return match
        if process.poll() is not None:
            match = re.search(pattern, process.log.read_text())
            return match or fail(f"ended without saying {pattern}:\n{process.log.read_text()}")
        time.sleep(0.02)
    return fail(f"did not say {pattern} in {within} s:\n{process.log.read_text()}")


def wait_until(condition, what, within=PATIENCE):
    end = time.monotonic() + within
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    fail(f"did not happen in {within} s: {what}")


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def one_line(error, *parts):
    """stderr ends in one line of ours that holds all these parts."""
    lines = [line for line in error.splitlines() if line.startswith("gradwire-")]
    check(len(lines) == 1, f"not one line:\n{error}")
    for part in parts:
        check(re.search(part, lines[0]), f"no {part} in: {lines[0]}")


def main(cases):
    """Runs the case named on the command line, or all."""
    failed = 0
    for name in sys.argv[1:] or list(cases):
        begun = time.monotonic()
        try:
            cases[name]()
            print(f"{name}: ok ({time.monotonic() - begun:.1f} s)", flush=True)
        except AssertionError as error:
            print(f"{name}: FAILED\n{error}", flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


__all__ = [name for name in dir() if not name.startswith("_")] + ["signal"]
