#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Matrix products over real nodes: against numpy, for any number of nodes, through loss and death.

Files are made and judged here without numpy; `against_numpy` looks for a python3 that has it and is
skipped (77) where there is none.
"""
from gradwire import *  # noqa: F403
import array
import math
import resource
import shutil

JUDGE = """
import sys
import numpy as np
a, b, c = (np.load(name) for name in sys.argv[2:5])
if c.dtype != np.dtype("<f4") or not c.flags.c_contiguous:
    sys.exit("not a C-ordered <f4")
x, y = float(sys.argv[5]), float(sys.argv[6])
a, b = np.atleast_2d(a).astype("f8"), np.atleast_2d(b).astype("f8")
want = a @ b if sys.argv[1] == "mul" else x * a + y * b
if want.shape != c.shape:
    sys.exit(f"{c.shape}, expected {want.shape}")
# Relative to what is added up, as rounding is.
size = abs(a) @ abs(b) if sys.argv[1] == "mul" else abs(x * a) + abs(y * b)
error = float((abs(c - want) / np.maximum(size, 1e-30)).max())
print(error)
sys.exit(0 if error <= 1e-5 else f"relative error {error}")
"""


def python_with_numpy():
    for name in (sys.executable, "/usr/bin/python3", shutil.which("python3")):
        if name and subprocess.run([name, "-c", "import numpy"], capture_output=True,
                                   check=False).returncode == 0:
            return name
    print("no python3 with numpy: skipped")
    sys.exit(77)


def write_npy(path, rows, cols, seed, descr="<f4", fortran=False, shape=None):
    rng = random.Random(seed)
    kind = "d" if descr == "<f8" else "f"
    data = array.array(kind, (rng.uniform(-1, 1) for _ in range(rows * cols)))
    head = (f"{{'descr': '{descr}', 'fortran_order': {fortran}, "
            f"'shape': {shape or (rows, cols)}, }}")
    head = (head + " " * (63 - (10 + len(head)) % 64) + "\n").encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data.tobytes())
    values = [[data[c * rows + r if fortran else r * cols + c] for c in range(cols)]
              for r in range(rows)]
    return values


def read_npy(path):
    raw = path.read_bytes()
    length = struct.unpack("<H", raw[8:10])[0]
    head = raw[10:10 + length].decode()
    check("'<f4'" in head and "'fortran_order': False" in head, head)
    rows, cols = map(int, re.search(r"\((\d+), (\d+)\)", head).groups())
    data = array.array("f", raw[10 + length:])
    check(len(data) == rows * cols, "another number of elements")
    return [data[r * cols:(r + 1) * cols] for r in range(rows)]


class Bench(Place):
    """A directory for matrices."""

    def __init__(self):
        super().__init__(train=1, test=1)

    def matmul(self, *words, out="c.npy", expect=0, **keys):
        process = self.coordinator("matmul", *words, "-o", out, **keys)
        return finish(process, expect)

    def bytes(self, name):
        return (self.path / name).read_bytes()

    def result(self, *words, out):
        out, _ = self.matmul(*words, "--json", out=out)
        return json.loads(out)


def small_shapes():
    """Element by element against a product written down here: every order and a few odd shapes."""
    with Bench() as place:
        for number, (m, k, n) in enumerate(((1, 1, 1), (1, 9, 4), (7, 1, 5), (33, 17, 9),
                                            (90, 5, 1), (150, 6, 7))):
            for fortran in (False, True):
                a = write_npy(place.path / "a.npy", m, k, number, fortran=fortran)
                b = write_npy(place.path / "b.npy", k, n, number + 50, descr="<f8",
                              fortran=fortran)
                for nodes in (0, 2):
                    place.matmul("a.npy", "b.npy", "--standalone", nodes, out=f"c{nodes}.npy")
                    c = read_npy(place.path / f"c{nodes}.npy")
                    for r in range(m):
                        for col in range(n):
                            want = math.fsum(a[r][i] * b[i][col] for i in range(k))
                            check(abs(c[r][col] - want) <= 1e-5, f"{m}x{k}x{n} at {r}, {col}")
                check(place.bytes("c0.npy") == place.bytes("c2.npy"), "two nodes differ from none")


def element_wise():
    with Bench() as place:
        a = write_npy(place.path / "a.npy", 301, 77, 1)
        b = write_npy(place.path / "b.npy", 301, 77, 2, fortran=True)
        for words, x, y in ((("add",), 1, 1), (("sub",), 1, -1), (("avg",), .5, .5),
                            (("avg", "--weights", "1,3"), .25, .75)):
            for nodes in (0, 3):
                place.matmul("a.npy", "b.npy", "--op", *words, "--standalone", nodes, "--check",
                             out=f"c{nodes}.npy")
            check(place.bytes("c0.npy") == place.bytes("c3.npy"), f"{words}: nodes differ")
            c = read_npy(place.path / "c0.npy")
            for r in range(0, 301, 50):
                for col in range(77):
                    check(abs(c[r][col] - (x * a[r][col] + y * b[r][col])) <= 1e-6, f"{words}")


def any_nodes_same_bits():
    with Bench() as place:
        write_npy(place.path / "a.npy", 411, 333, 1)
        write_npy(place.path / "b.npy", 333, 402, 2)
        for nodes in (0, 1, 2, 3, 5):
            result = place.result("a.npy", "b.npy", "--standalone", nodes,
                                  out=f"c{nodes}.npy")
            check(result["nodes"] == nodes, str(result))
            check(place.bytes(f"c{nodes}.npy") == place.bytes("c0.npy"), f"{nodes} nodes differ")


def against_numpy():
    """200 x 200, tall, one row, Fortran order, 1-d: every element within 1e-5."""
    python = python_with_numpy()
    with Bench() as place:
        def judge(op, x=0.0, y=0.0):
            run = subprocess.run([python, "-c", JUDGE, op, "a.npy", "b.npy", "c.npy", str(x), str(y)],
                                 cwd=place.path, capture_output=True, text=True, check=False)
            check(run.returncode == 0, run.stderr)
        for m, k, n, fortran in ((200, 200, 200, False), (1, 500, 300, False), (600, 3, 2, True),
                                 (257, 129, 65, True)):
            write_npy(place.path / "a.npy", m, k, 1, fortran=fortran)
            write_npy(place.path / "b.npy", k, n, 2)
            place.matmul("a.npy", "b.npy", "--standalone", 2)
            judge("mul")
        write_npy(place.path / "a.npy", 1, 70, 1, shape="(70,)")
        write_npy(place.path / "b.npy", 1, 70, 2)
        place.matmul("a.npy", "b.npy", "--op", "avg", "--standalone", 2)
        judge("avg", .5, .5)


def loss_and_death():
    """Three nodes through 5 % loss, one of them killed in the middle."""
    with Bench() as place:
        write_npy(place.path / "a.npy", 700, 700, 1)
        write_npy(place.path / "b.npy", 700, 700, 2)
        place.matmul("a.npy", "b.npy", "--standalone", 1, out="one.npy")
        run = place.coordinator("matmul", "a.npy", "b.npy", "-o", "c.npy", "--standalone", 3,
                                "--check", "--json", "--impair", "loss=5%,delay=2ms,rate=8mbit,seed=3")
        wait_for(run, "begin nodes=3")
        # B takes two seconds: after that everybody has blocks.
        time.sleep(2.3)
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        os.kill(int(children[1]), signal.SIGKILL)
        out, error = finish(run)
        check("lost node=n2 reason=process-ended" in error, error)
        check(json.loads(out)["nodes"] == 3, out)
        check(place.bytes("c.npy") == place.bytes("one.npy"), "not the bits of one node")


def a_frozen_node():
    """It is given up after 2.5 s and comes back as a new member, whose help is taken."""
    with Bench() as place:
        write_npy(place.path / "a.npy", 700, 700, 1)
        place.matmul("a.npy", "a.npy", "--standalone", 0, out="here.npy")
        port = free_port()
        run = place.coordinator("matmul", "a.npy", "a.npy", "-o", "c.npy", "--listen",
                                f"127.0.0.1:{port}", "--nodes", 2, "--impair", "rate=5mbit")
        nodes = [place.node(port, "--name", f"n{i}") for i in (1, 2)]
        wait_for(run, "begin nodes=2")
        nodes[1].send_signal(signal.SIGSTOP)
        wait_for(run, "lost node=n2 reason=silent")
        nodes[1].send_signal(signal.SIGCONT)
        wait_for(run, "joined node=n2 nodes=2")
        finish(run)
        check(place.bytes("c.npy") == place.bytes("here.npy"), "other bits")
        finish(nodes[0])
        finish(nodes[1])


def a_late_node_helps():
    """The only node is killed; the product waits for another."""
    with Bench() as place:
        write_npy(place.path / "a.npy", 600, 600, 1)
        write_npy(place.path / "b.npy", 600, 600, 2)
        place.matmul("a.npy", "b.npy", "--standalone", 0, out="here.npy")
        port = free_port()
        run = place.coordinator("matmul", "a.npy", "b.npy", "-o", "c.npy", "--listen",
                                f"127.0.0.1:{port}", "--impair", "delay=2ms,rate=20mbit")
        first = place.node(port, "--name", "first")
        wait_for(run, "begin nodes=1")
        first.kill()
        wait_for(run, "no node is left")
        second = place.node(port, "--name", "second")
        finish(run)
        finish(second)
        check(place.bytes("c.npy") == place.bytes("here.npy"), "other bits")


def no_node_left():
    with Bench() as place:
        write_npy(place.path / "a.npy", 600, 600, 1)
        port = free_port()
        run = place.coordinator("matmul", "a.npy", "a.npy", "-o", "c.npy", "--listen",
                                f"127.0.0.1:{port}", "--wait", 3, "--impair", "rate=20mbit")
        node = place.node(port)
        wait_for(run, "begin nodes=1")
        node.kill()
        _, error = finish(run, expect=6)
        one_line(error, "no node is left", "3 s")
        check(not (place.path / "c.npy").exists(), "half a result")
        run = place.coordinator("matmul", "a.npy", "a.npy", "-o", "c.npy", "--wait", 1, "--listen",
                                f"127.0.0.1:{free_port()}")
        one_line(finish(run, expect=3)[1], "0 of 1 nodes")


def b20_bad_files():
    with Bench() as place:
        write_npy(place.path / "a.npy", 4, 5, 1)
        write_npy(place.path / "b.npy", 4, 5, 2)
        write_npy(place.path / "cube.npy", 4, 5, 2, shape="(2, 2, 5)")
        whole = place.bytes("a.npy")
        (place.path / "cut.npy").write_bytes(whole[:-7])
        (place.path / "long.npy").write_bytes(whole + b"x")
        (place.path / "head.npy").write_bytes(whole[:50])
        (place.path / "text.npy").write_text("1 2 3\n4 5 6\n")
        (place.path / "int.npy").write_bytes(whole.replace(b"<f4", b"<i4"))
        (place.path / "empty.npy").write_bytes(b"")
        (place.path / "huge.npy").write_bytes(whole.replace(b"(4, 5), }", b"(4, 4294967296), }", 1)
                                              .replace(b"         \n", b"\n", 1))

        def expect(*words, parts=(), code=2):
            for nodes in (0, 2):
                _, error = place.matmul(*words, "--standalone", nodes, expect=code)
                one_line(error, *parts)
                check(not (place.path / "c.npy").exists(), "a result")

        expect("a.npy", "b.npy", parts=("a.npy is 4 x 5", "b.npy is 4 x 5"))
        expect("a.npy", "cut.npy", "--op", "add", parts=("cut.npy", "truncated"))
        expect("long.npy", "a.npy", parts=("long.npy", "too many"))
        expect("head.npy", "a.npy", parts=("head.npy",))
        expect("text.npy", "a.npy", parts=("text.npy", "not a .npy"))
        expect("int.npy", "a.npy", parts=("int.npy", "<f4"))
        expect("empty.npy", "a.npy", parts=("empty.npy",))
        expect("huge.npy", "a.npy", parts=("huge.npy",))
        expect("cube.npy", "a.npy", parts=("cube.npy", "dimensions"))
        expect("none.npy", "a.npy", parts=("none.npy", "No such file"))
        expect("a.npy", "b.npy", "--op", "div", parts=("div", "mul, add, sub, avg"))
        expect("a.npy", "b.npy", "--op", "add", "--weights", "1,2", parts=("--weights",))
        expect("a.npy", "b.npy", "--op", "avg", "--weights", "1,-1", parts=("--weights",))


def b22_output():
    with Bench() as place:
        write_npy(place.path / "a.npy", 40, 40, 1)
        (place.path / "file").write_text("in the way")
        (place.path / "dir").mkdir()
        for out, code in (("file/c.npy", 3), ("none/c.npy", 3), ("/proc/c.npy", 3), ("dir", 2)):
            _, error = place.matmul("a.npy", "a.npy", "--standalone", 1, out=out, expect=code)
            one_line(error, re.escape(out))

        def no_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        _, error = place.matmul("a.npy", "a.npy", "--standalone", 0, expect=1, preexec_fn=no_room)
        one_line(error, "c.npy", "[Ff]ile too large")
        left = sorted(path.name for path in place.path.iterdir())
        check(not [name for name in left if name.startswith("c.npy")], str(left))


def b25_too_large():
    """Sizes in the message, not a crash: memory for C, and a row beyond a message."""
    with Bench() as place:
        write_npy(place.path / "a.npy", 60000, 1, 1)
        write_npy(place.path / "b.npy", 1, 60000, 2)

        def little_memory():
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        for nodes in (0, 1):
            _, error = place.matmul("a.npy", "b.npy", "--standalone", nodes, expect=1,
                                    preexec_fn=little_memory)
            one_line(error, "60000 x 60000", "14400000000 bytes")
        write_npy(place.path / "a.npy", 1100000, 1, 1)
        write_npy(place.path / "b.npy", 1, 1100000, 2)
        _, error = place.matmul("a.npy", "b.npy", "--standalone", 0, expect=1)
        one_line(error, "1100000 x 1100000", "4840000000000 bytes")


def stopped():
    with Bench() as place:
        write_npy(place.path / "a.npy", 500, 500, 1)
        run = place.coordinator("matmul", "a.npy", "a.npy", "-o", "c.npy", "--standalone", 2,
                                "--impair", "rate=5mbit")
        wait_for(run, "begin nodes=2")
        run.send_signal(signal.SIGINT)
        one_line(finish(run, expect=4)[1], "stopped by the user")
        check(not (place.path / "c.npy").exists(), "half a result")


def says_when_local_is_faster():
    with Bench() as place:
        write_npy(place.path / "a.npy", 200, 200, 1)
        out, error = place.matmul("a.npy", "a.npy", "--standalone", 2)
        check(out.count("\n") == 1, out)
        for part in ("200 x 200", "GFLOP/s", "MB moved", "2 nodes"):
            check(part in out, out)
        check("here alone it would have taken" in error and "--standalone 0" in error, error)


if __name__ == "__main__":
    main({function.__name__: function for function in (
        small_shapes, element_wise, any_nodes_same_bits, against_numpy, loss_and_death,
        a_frozen_node, a_late_node_helps, no_node_left, b20_bad_files, b22_output, b25_too_large, stopped,
        says_when_local_is_faster)})
