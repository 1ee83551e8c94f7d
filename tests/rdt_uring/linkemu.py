#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/netem/linkemu joins two namespaces by the link it was asked for, and leaves nothing behind.

Needs root and TUN; exit 77 without.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build")
LINKEMU = BUILD / "bin-tools" / "linkemu"
BENCH = BUILD / "bin" / "rdt-bench"


class Link:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([LINKEMU, *arguments], text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        ready = self.process.stdout.readline()
        if not ready:
            print(self.process.communicate()[1])
            sys.exit(self.process.returncode)
        self.a, self.b = re.match(r"READY a=(\S+) b=(\S+)", ready).groups()

    def stop(self):
        self.process.terminate()
        return self.process.communicate(timeout=10)[1]

    def bench(self, net, *arguments):
        command = ["nsenter", f"--net={net}", "--", BENCH, *map(str, arguments)]
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE)

    def pair(self, server, client):
        first = self.bench(self.b, *server, "--ip", "10.77.0.2", "--mss", 1472)
        second = self.bench(self.a, *client, "--ip", "10.77.0.2", "--mss", 1472)
        out = second.communicate(timeout=60)[0]
        if server[0] == "pong":
            first.kill()
        return out, first.communicate(timeout=60)[0]


class Emulator(unittest.TestCase):
    def test_delay(self):
        link = Link("--link", "delay=5ms")
        out, _ = link.pair(["pong"], ["ping", "--count", 20])
        link.stop()
        self.assertGreaterEqual(float(re.search(r"p50=([\d.]+)", out)[1]), 10000)

    def test_rate_and_loss(self):
        link = Link("--link", "rate=50mbit,delay=1ms,loss=3%,seed=5")
        _, out = link.pair(["recv", "--bytes", 5_000_000], ["send", "--bytes", 5_000_000])
        stats = link.stop()
        size, secs = re.search(r"bytes=(\d+) secs=([\d.]+)", out).groups()
        self.assertGreaterEqual(int(size), 5_000_000)
        self.assertLess(int(size) * 8 / float(secs), 50e6)
        self.assertGreater(int(re.search(r"from a .* lost=(\d+)", stats)[1]), 0)

    def test_namespaces_end_with_it(self):
        link = Link()
        self.assertTrue(os.path.exists(link.a))
        self.assertIn("link0", subprocess.run(["nsenter", f"--net={link.a}", "--", "cat",
                                               "/proc/net/dev"], capture_output=True,
                                              text=True).stdout)
        link.process.kill()
        link.process.communicate()
        self.assertFalse(os.path.exists(link.a))
        self.assertNotIn("link0", pathlib.Path("/proc/net/dev").read_text())

    def test_usage(self):
        for wrong in (["--link", "loss=200%"], ["--mtu", "5"], ["--what"]):
            done = subprocess.run([LINKEMU, *wrong], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertTrue(done.stderr)


if __name__ == "__main__":
    Link().stop()  # ends the program with 77 where no link can be made
    unittest.main()
