#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdt-bench and the example do what they say, over loopback and through a simulated link."""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build")
BENCH = BUILD / "bin" / "rdt-bench"
HELLO = BUILD / "bin-examples" / "hello"


def free_port(family=socket.AF_INET, address="127.0.0.1"):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.bind((address, 0))
        return str(s.getsockname()[1])


def wait_until_bound(port):
    """Until some process has the UDP port."""
    wanted = f":{int(port):04X} "
    for _ in range(500):
        for table in ("/proc/net/udp", "/proc/net/udp6"):
            if os.path.exists(table) and wanted in pathlib.Path(table).read_text():
                return
        time.sleep(0.01)
    raise AssertionError(f"nobody bound port {port}")


def start(*command, **more):
    return subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, **more)


def fields(text, tag):
    for line in text.splitlines():
        if line.startswith(tag + " "):
            return {k: float(v) for k, v in re.findall(r"(\w+)=([\d.]+)", line)}
    raise AssertionError(f"no {tag} line in: {text}")


class Bench(unittest.TestCase):
    def bulk(self, count, *arguments, ip="127.0.0.1"):
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        port = free_port(family, ip)
        common = ("--ip", ip, "--port", port, "--bytes", count, "--secs", 20, *arguments)
        receiver = start(BENCH, "recv", *common, text=True)
        wait_until_bound(port)
        sender = start(BENCH, "send", *common, "--stats", text=True)
        got = fields(receiver.communicate(timeout=60)[0], "RECV")
        stats = fields(sender.communicate(timeout=60)[0], "STATS")
        self.assertEqual((receiver.returncode, sender.returncode), (0, 0))
        self.assertEqual(got["bytes"], count)
        return stats

    def test_bulk(self):
        self.assertEqual(self.bulk(50_000_001)["payload_sent"], 50_000_001)

    def test_bulk_ipv6_in_small_datagrams(self):
        self.assertEqual(self.bulk(10_000_000, "--mss", 1232, ip="::1")["payload_sent"], 10_000_000)

    def test_bulk_through_a_bad_link(self):
        stats = self.bulk(5_000_000, "--mss", 1472, "--impair",
                          "loss=5%,duplicate=2%,reorder=2%,corrupt=2%,delay=200us,seed=3")
        self.assertGreater(stats["payload_retransmitted"], 0)
        self.assertGreater(stats["corrupt"], 0)

    def ping(self, *arguments):
        port = free_port()
        answerer = start(BENCH, "pong", "--port", port)
        try:
            wait_until_bound(port)
            out = subprocess.run([BENCH, "ping", "--port", port, "--count", "200", *arguments],
                                 capture_output=True, text=True, timeout=60, check=True).stdout
        finally:
            answerer.kill()
            answerer.communicate()
        return fields(out, "PING")

    def test_ping(self):
        self.assertEqual(self.ping()["n"], 200)
        self.assertEqual(self.ping("--size", "65536")["n"], 200)

    def test_ping_through_a_link(self):
        self.assertGreater(self.ping("--impair", "delay=1ms")["p50"], 1900)

    def test_usage(self):
        for wrong in ([], ["fly"], ["ping", "--size", "0"], ["send", "--impair", "loss=200%"],
                      ["recv", "--ip", "nowhere"], ["recv", "--surprise", "1"]):
            done = subprocess.run([BENCH, *wrong], capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertTrue(done.stderr.strip(), wrong)


class Hello(unittest.TestCase):
    def test_a_message_arrives(self):
        for size in (0, 5, 65536, 3_000_000):
            port = free_port()
            sent = os.urandom(size)
            # Not a pipe: the example would wait for its reader, and nobody would acknowledge.
            with tempfile.TemporaryFile() as copy:
                listener = subprocess.Popen([HELLO, "listen", f"127.0.0.1:{port}"], stdout=copy)
                wait_until_bound(port)
                done = subprocess.run([HELLO, "send", f"127.0.0.1:{port}"], input=sent, timeout=30)
                self.assertEqual((done.returncode, listener.wait(30)), (0, 0))
                copy.seek(0)
                self.assertEqual(copy.read(), sent)


if __name__ == "__main__":
    unittest.main()
