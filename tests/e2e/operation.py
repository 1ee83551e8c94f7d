#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What people do to a run: start things in any order, stop them, kill them, get things wrong."""
from gradwire import *  # noqa: F403
import resource


def coordinator_at(place, port, *words, out="a", **keys):
    return place.coordinator("train", "run.json", "--out", out, "--listen", f"127.0.0.1:{port}",
                             *words, **keys)


def b04_any_order():
    """One node long before the coordinator, one after it."""
    with Place() as place:
        port = free_port()
        early = place.node(port, "--name", "early")
        time.sleep(4)
        run = coordinator_at(place, port, "--nodes", 2)
        wait_for(run, "1/2 nodes joined")
        late = place.node(port, "--name", "late")
        _, error = finish(run)
        check("0/2 nodes joined" in error and "2/2 nodes joined" in error, error)
        finish(early)
        finish(late)


def b04_half_a_minute():
    """The last node comes 30 s after the coordinator: links idle for so long stay alive."""
    with Place() as place:
        port = free_port()
        run = coordinator_at(place, port, "--nodes", 2)
        first = place.node(port)
        wait_for(run, "1/2 nodes joined")
        time.sleep(30)
        second = place.node(port)
        _, error = finish(run)
        check(error.count("1/2 nodes joined") == 1, error)
        finish(first)
        finish(second)


def b05_too_few_nodes():
    with Place() as place:
        port = free_port()
        begun = time.monotonic()
        run = coordinator_at(place, port, "--nodes", 3, "--set", "cluster.wait_s=2")
        node = place.node(port, "--name", "lonely")
        _, error = finish(run, expect=3)
        one_line(error, "1 of 3 nodes", "missing 2", "lonely")
        check(time.monotonic() - begun < 10, "waited too long")
        check(not (place.path / "a" / "model.safetensors").exists(), "a model of no step")
        finish(node)


def b06_addresses():
    with Place() as place:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            _, error = finish(coordinator_at(place, port), expect=3)
            one_line(error, f"127.0.0.1:{port}", "in use")
        name = "no-such-host.invalid:7000"
        run = place.coordinator("train", "run.json", "--out", "a", "--listen", name)
        one_line(finish(run, expect=3)[1], "no-such-host.invalid")
        one_line(finish(place.start(NODE, "--join", name), expect=3)[1], "no-such-host.invalid")
        one_line(finish(place.start(NODE, "--join", "nonsense"), expect=3)[1], "nonsense")
        check(not (place.path / "a").exists(), "a run directory of a run that never was")


def b18_garbage():
    """Random, truncated and oversized datagrams at the coordinator's port change nothing."""
    with Place() as place:
        place.train("b", "--standalone", 0)
        port = free_port()
        run = coordinator_at(place, port, "--nodes", 1)
        wait_for(run, "0/1 nodes joined")
        rng = random.Random(1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            def throw(count):
                for i in range(count):
                    size = rng.choice((0, 1, 8, 23, 24, 100, 548, 1200, 1452, 9000, 60000))
                    data = bytearray(rng.randbytes(size))
                    if size > 8:
                        data[8] = rng.choice((0, 1, 2, 3, 4, 7, 16, 17, 18, 19))
                    stranger.sendto(data, ("127.0.0.1", port))
                    if i % 50 == 0:
                        time.sleep(0.001)
            throw(1000)
            node = place.node(port)
            while run.poll() is None:
                throw(100)
                time.sleep(0.01)
        finish(run)
        finish(node)
        check(place.hash("a") == place.hash("b"), "garbage changed the weights")
        counts = dict(re.findall(r"(\w+)=(\d+)", re.search("network .*", place.events("a"))[0]))
        dropped = sum(int(counts[key]) for key in ("corrupt", "malformed", "stray"))
        check(dropped > 900, f"dropped and not counted: {counts}")


def b19_bad_configs():
    with Place(epochs=1) as place:
        good = json.loads((place.path / "run.json").read_text())
        write_idx(place.path / "few.gz", (10,), bytes(10))
        write_idx(place.path / "big.gz", (600,), bytes([9]) * 600)
        (place.path / "cut.gz").write_bytes((place.path / "train-images.gz").read_bytes()[:5000])

        def expect(change, *parts):
            place.config = json.loads(json.dumps(good))
            change(place.config)
            place.write()
            _, error = finish(place.coordinator("train", "run.json", "--out", "a",
                                                "--standalone", 2), expect=2)
            one_line(error, r"run\.json:\d+: ", *parts)
            check(not (place.path / "a").exists(), "something was started")

        expect(lambda c: c["train"].update(bach=3), r"train\.bach", "batch")
        expect(lambda c: c["train"].update(batch="many"), r"train\.batch")
        expect(lambda c: c["train"].update(batch=-1), r"train\.batch")
        expect(lambda c: c["train"].update(batch=1 << 40), r"train\.batch")
        expect(lambda c: c["train"].update(batch=60000, leaf=1), r"leaf")
        expect(lambda c: c["model"].update(layers=[{"dense": 0}]), r"model\.layers")
        expect(lambda c: c["model"].update(layers=["rely"]), r"model\.layers", "relu")
        expect(lambda c: c["model"].update(input=[99]), r"99")
        expect(lambda c: c["model"].update(loss="huh"), r"model\.loss")
        expect(lambda c: c["data"]["train"].update(images="none.gz"), r"none\.gz")
        expect(lambda c: c["data"].update(normalize={"deviation": 1e-300}), r"data\.normalize",
               "finite")
        expect(lambda c: c["data"]["train"].update(labels="few.gz"), r"few\.gz")
        expect(lambda c: c["data"]["train"].update(labels="big.gz"), r"big\.gz")
        expect(lambda c: c["data"]["train"].update(images="cut.gz"), r"cut\.gz")
        expect(lambda c: c.update(trian={}), r"trian", "train")
        (place.path / "run.json").write_text('{"model": \n  oops}')
        one_line(finish(place.coordinator("train", "run.json"), expect=2)[1], r"run\.json:2")
        one_line(finish(place.coordinator("train", "none.json"), expect=2)[1], "none.json")


def usage():
    with Place() as place:
        for words in (("fly",), (), ("train",), ("matmul", "a", "b"), ("train", "run.json", "--x"),
                      ("train", "run.json", "--standalone", "-1"),
                      ("train", "run.json", "--standalone", "1", "--impair", "loss=200%"),
                      ("train", "run.json", "--nodes", "0"), ("eval", "a")):
            one_line(finish(place.coordinator(*words), expect=2)[1])
        for words in ((), ("--join",), ("--threads", "0"), ("--what", "1"),
                      ("--join", "127.0.0.1:1", "--name", "a b"),
                      ("--join", "127.0.0.1:1", "--impair", "wind=3")):
            one_line(finish(place.start(NODE, *words), expect=2)[1])
        check("--standalone" in finish(place.coordinator("--help"))[0], "no help")
        check("--join" in finish(place.start(NODE, "--help"))[0], "no help")


def b21_kernel():
    """One line says which BLAS kernel computes, whatever the environment."""
    with Place(epochs=1) as place:
        environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
        for out, extra in (("a", {}), ("b", {"OPENBLAS_CORETYPE": "Haswell"})):
            run = place.coordinator("train", "run.json", "--out", out, "--standalone", 1,
                                    env={**environment, **extra})
            _, error = finish(run)
            lines = [line for line in error.splitlines() if line.startswith("kernel=")]
            check(len(lines) == 1, error)
            check(place.summary(out)["kernel"] in lines[0], error)
        check(place.summary("b")["kernel"] == "Haswell", str(place.summary("b")))


def small_files(limit):
    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return prepare


def b22_disk():
    """No room and no permission: one clear line, and no half-written file."""
    with Place() as place:
        (place.path / "file").write_text("in the way")
        for out in ("file/a", "/proc/gradwire"):
            run = place.coordinator("train", "run.json", "--out", out, "--standalone", 0)
            one_line(finish(run, expect=3)[1], re.escape(out))
        # The first limit is hit by the model (20 KB), the second by the log of the steps.
        for number, limit in enumerate((8000, 2000)):
            for nodes in (0, 2):
                out = f"full{number}{nodes}"
                run = place.coordinator("train", "run.json", "--out", out, "--standalone", nodes,
                                        preexec_fn=small_files(limit))
                one_line(finish(run, expect=1)[1], "[Ff]ile too large")
                left = sorted(p.name for p in (place.path / out).iterdir())
                check("model.safetensors" not in left and "summary.json" not in left, str(left))
                check(not [name for name in left if "tmp" in name], str(left))
                text = (place.path / out / "run.jsonl").read_text()
                check(text.endswith("}\n"), f"half a line: {text[-80:]}")


def closed_streams():
    """Nobody listens: files and sockets must not take the places of stdin, stdout and stderr."""
    with Place(epochs=1) as place:
        for nodes in (0, 2):
            finish(place.coordinator("train", "run.json", "--out", f"n{nodes}", "--standalone", nodes,
                                     preexec_fn=lambda: os.closerange(0, 3)))
        check(place.steps("n0")[-1]["loss"] == place.steps("n2")[-1]["loss"], "they differ")


def stopped_by(number):
    with Place(epochs=1000) as place:
        for nodes in (0, 2):
            out = f"n{nodes}"
            run = place.coordinator("train", "run.json", "--out", out, "--standalone", nodes)
            log = place.path / out / "run.jsonl"
            wait_until(lambda: log.exists() and log.read_text().count("\n") >= 5, "five steps")
            os.kill(run.pid, number)
            _, error = finish(run, expect=4, within=10)
            one_line(error, "stopped")
            steps = place.steps(out)
            check(place.hash(out) == steps[-1]["weights_xxh3"], "not the last step's weights")
            check(place.summary(out)["steps"] == len(steps), "summary.json")
            for i in range(nodes):
                log = (place.path / out / f"n{i + 1}.log").read_text()
                check("the run is over" in log, f"node n{i + 1} was not released: {log}")


def b23_interrupted():
    stopped_by(signal.SIGINT)


def b23_terminated():
    stopped_by(signal.SIGTERM)


def steps_done(place, out, count):
    log = place.path / out / "run.jsonl"
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= count, f"{count} steps")


def pid_of(place, out, name):
    rows = [row.split(",") for row in (place.path / out / "nodes.csv").read_text().splitlines()]
    return next(int(row[rows[0].index("pid")]) for row in rows if row[0] == name)


def check_same(place, out, other):
    check(place.hash(out) == place.hash(other), f"{out} and {other} differ")
    check([step["weights_xxh3"] for step in place.steps(out)] ==
          [step["weights_xxh3"] for step in place.steps(other)], "the way there differs")


def killed_local_node():
    with Place(epochs=200) as place:
        place.train("a", "--standalone", 0)
        run = place.coordinator("train", "run.json", "--out", "b", "--standalone", 3)
        steps_done(place, "b", 5)
        os.kill(pid_of(place, "b", "n2"), signal.SIGKILL)
        _, error = finish(run)
        check("lost node=n2 reason=process-ended" in place.events("b"), place.events("b"))
        check("lost node=n2" in error, error)
        check_same(place, "b", "a")
        check(place.steps("b")[-1]["nodes"] == 2, "who did the last step?")


def killed_remote_node():
    with Place(epochs=200) as place:
        place.train("a", "--standalone", 0)
        port = free_port()
        run = coordinator_at(place, port, "--nodes", 2, out="b")
        nodes = [place.node(port, "--name", name) for name in ("left", "right")]
        steps_done(place, "b", 5)
        begun = time.monotonic()
        nodes[0].kill()
        wait_until(lambda: "lost node=left reason=silent" in place.events("b"), "the loss")
        check(time.monotonic() - begun < 5, "took too long to notice")
        finish(run)
        finish(nodes[1])
        check_same(place, "b", "a")


def frozen_node_comes_back():
    """Silent for ten seconds it is dead; then it is a new member with the old identity."""
    with Place(epochs=200) as place:
        place.train("a", "--standalone", 0)
        run = place.coordinator("train", "run.json", "--out", "b", "--standalone", 2, "--set",
                                "cluster.nodes=2", "--set", "cluster.min_nodes=2")
        steps_done(place, "b", 5)
        pid = pid_of(place, "b", "n1")
        begun = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: "waiting nodes=1" in place.events("b"), "its death")
            check(time.monotonic() - begun < 5, "took too long to notice")
            time.sleep(7)
        finally:
            os.kill(pid, signal.SIGCONT)
        finish(run)
        events = place.events("b")
        check("lost node=n1 reason=silent" in events, events)
        check("resumed nodes=2" in events, events)
        check(events.count(" joined node=n1 ") == 2, events)
        check_same(place, "b", "a")


def late_node():
    with Place(epochs=200) as place:
        place.train("a", "--standalone", 0)
        port = free_port()
        run = coordinator_at(place, port, "--nodes", 1, out="b")
        first = place.node(port, "--name", "first")
        steps_done(place, "b", 5)
        late = place.node(port, "--name", "late")
        for process in (run, first, late):
            finish(process)
        rows = [row.split(",") for row in (place.path / "b/nodes.csv").read_text().splitlines()]
        leaves = {row[0]: int(row[rows[0].index("leaves")]) for row in rows[1:]}
        check(leaves["late"] > 0 and leaves["first"] > 0, str(leaves))
        check_same(place, "b", "a")


def no_node_left():
    with Place(epochs=1000) as place:
        run = place.coordinator("train", "run.json", "--out", "a", "--standalone", 1, "--set",
                                "cluster.wait_s=2")
        steps_done(place, "a", 5)
        begun = time.monotonic()
        os.kill(pid_of(place, "a", "n1"), signal.SIGKILL)
        _, error = finish(run, expect=6, within=10)
        check(1.5 < time.monotonic() - begun < 8, "did not wait as told")
        one_line(error, "n1", "lost", "no other came within 2 s")
        check(place.hash("a") == place.steps("a")[-1]["weights_xxh3"], "weights not saved")
        check(place.summary("a")["steps"] == len(place.steps("a")), "summary.json")


def lost_coordinator():
    """A node outlives its coordinator and joins the next one."""
    with Place(epochs=1000) as place:
        port = free_port()
        run = coordinator_at(place, port, "--nodes", 1)
        node = place.node(port, "--name", "loyal")
        log = place.path / "a" / "run.jsonl"
        wait_until(lambda: log.exists() and log.read_text().count("\n") >= 5, "five steps")
        run.kill()
        run.wait()
        wait_for(node, "lost coordinator", within=10)
        place.config["train"]["epochs"] = 2
        place.write()
        finish(coordinator_at(place, port, "--nodes", 1, out="b"))
        finish(node)
        place.train("c", "--standalone", 0)
        check(place.hash("b") == place.hash("c"), "the second run differs")


def node_gives_up():
    with Place() as place:
        begun = time.monotonic()
        node = place.node(free_port(), "--wait", 2)
        one_line(finish(node, expect=3)[1], "no coordinator", "2 s")
        check(1.5 < time.monotonic() - begun < 6, "did not wait as told")


def not_finite():
    with Place() as place:
        place.config["train"]["optimizer"] = {"name": "sgd", "lr": 1000}
        place.config["model"]["layers"] = [{"dense": 48}, {"dense": 48}, {"dense": CLASSES}]
        place.config["model"]["loss"] = "mse"
        place.write()
        for nodes in (0, 2):
            out = f"n{nodes}"
            _, error = place.train(out, "--standalone", nodes, expect=5)
            one_line(error, r"step \d+", "finite")
            steps = place.steps(out)
            check(place.hash(out) == steps[-1]["weights_xxh3"], "weights of a bad step were kept")
        check(place.hash("n0") == place.hash("n2"), "they end at different steps")


if __name__ == "__main__":
    main({function.__name__: function for function in (
        b04_any_order, b04_half_a_minute, b05_too_few_nodes, b06_addresses, b18_garbage, b19_bad_configs, usage,
        b21_kernel, b22_disk, closed_streams, b23_interrupted, b23_terminated, killed_local_node,
        killed_remote_node, frozen_node_comes_back, late_node, no_node_left, lost_coordinator,
        node_gives_up, not_finite)})
