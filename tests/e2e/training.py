#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training over real processes: the same weights, however they were computed."""
from gradwire import *  # noqa: F403
import shutil


def same_weights(place, outs):
    hashes = {out: place.hash(out) for out in outs}
    check(len(set(hashes.values())) == 1, f"weights differ: {hashes}")
    for out in outs:
        check(place.summary(out)["weights_xxh3"] == hashes[out], f"{out}: summary.json differs")
        steps = place.steps(out)
        check(steps[-1]["weights_xxh3"] == hashes[out], f"{out}: run.jsonl differs")
        check([step["step"] for step in steps] == list(range(len(steps))), f"{out}: steps")
    first = [(s["loss"], s["weights_xxh3"], s["samples"]) for s in place.steps(outs[0])]
    for out in outs[1:]:
        other = [(s["loss"], s["weights_xxh3"], s["samples"]) for s in place.steps(out)]
        check(first == other, f"{out}: the curve differs")


def quickstart():
    """Three nodes through 5 % loss train what one process trains."""
    with Place() as place:
        out, error = place.train("a", "--standalone", 3, "--impair", "loss=5%,seed=3")
        check("test accuracy" in out and "weights_xxh3" in out, out)
        check("kernel" in error and "3/3 nodes joined" in error, error)
        place.train("b", "--standalone", 0)
        same_weights(place, ["a", "b"])
        summary = place.summary("a")
        for key in ("steps", "final_loss", "test_accuracy", "samples_per_s", "seconds", "nodes",
                    "bytes_sent", "bytes_retransmitted", "weights_xxh3"):
            check(key in summary, f"summary.json lacks {key}")
        check(summary["steps"] == 20 and summary["nodes"] == 3, str(summary))
        check(summary["test_accuracy"] > 0.8, f"learned nothing: {summary}")
        check(summary["bytes_retransmitted"] > 0, "5 % loss and nothing was sent again")
        for name in ("config.json", "events.log", "nodes.csv", "n1.log", "n3.log"):
            check((place.path / "a" / name).exists(), f"run directory lacks {name}")
        verified = finish(place.coordinator("verify", "a", "b"))[0]
        check(verified.startswith("same weights"), verified)


def b07_prime_samples():
    """Sample count prime, batch and leaf that divide nothing: any N."""
    with Place(train=211, test=103, batch=37, leaf=5) as place:
        outs = []
        for nodes in (0, 1, 2, 4, 7):
            outs.append(f"n{nodes}")
            place.train(outs[-1], "--standalone", nodes)
        same_weights(place, outs)
        check(sum(s["samples"] for s in place.steps("n4")) == 2 * 211, "samples of two epochs")


def b08_b17_unequal_shares():
    """3, 5 and 7 nodes share 8 leaves; the remainder is nobody's problem."""
    with Place() as place:
        outs = []
        for nodes in (0, 3, 5, 7):
            outs.append(f"n{nodes}")
            place.train(outs[-1], "--standalone", nodes)
        same_weights(place, outs)


def b10_evaluation():
    """Evaluation over three nodes counts like one process, on a number nothing divides."""
    with Place(test=10007) as place:
        place.train("a", "--standalone", 3)
        place.train("b", "--standalone", 0)
        a, b = place.summary("a"), place.summary("b")
        check(a["test_accuracy"] == b["test_accuracy"] and a["test_loss"] == b["test_loss"],
              f"{a} {b}")
        out = finish(place.coordinator("eval", "a/model.safetensors", "run.json", "--json"))[0]
        check(json.loads(out)["test_accuracy"] == a["test_accuracy"], f"{out} {a}")


def b24_one_line_a_step():
    with Place() as place:
        for nodes in (0, 1, 3):
            place.train(f"n{nodes}", "--standalone", nodes)
            steps = [step["step"] for step in place.steps(f"n{nodes}")]
            check(steps == list(range(20)), f"{nodes} nodes: {steps}")


def json_lines():
    """--json: every line of both outputs is one object."""
    with Place() as place:
        out, error = place.train("a", "--standalone", 1, "--json")
        result = json.loads(out)
        check(result["weights_xxh3"] == place.hash("a") and result["steps"] == 20, out)
        lines = [json.loads(line) for line in error.splitlines()]
        check({"nodes": 1, "wanted": 1} in lines, error)
        check(lines[-1]["epoch"] == 2 and "test_accuracy" in lines[-1], error)


def both_protocols():
    """One coordinator, a node over IPv4 and one over IPv6."""
    with Place() as place:
        port = free_port()
        try:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
                probe.bind(("::1", 0))
        except OSError:
            print("both_protocols: skipped, no IPv6 here")
            sys.exit(77)
        run = place.coordinator("train", "run.json", "--out", "a", "--nodes", 2, "--listen",
                                f"[::]:{port}")
        nodes = [place.node(port),
                 place.start(NODE, "--join", f"[::1]:{port}", "--threads", 1)]
        finish(run)
        for node in nodes:
            finish(node)
        table = (place.path / "a" / "nodes.csv").read_text()
        check("[::1]:" in table and "127.0.0.1:" in table, table)


def bad_links():
    """Loss, duplicates, another order and damage on both sides of the link."""
    with Place() as place:
        port = free_port()
        spec = "loss=10%,duplicate=2%,reorder=2%,corrupt=2%,seed="
        run = place.coordinator("train", "run.json", "--out", "a", "--nodes", 2, "--listen",
                                f"127.0.0.1:{port}", "--impair", spec + "1")
        nodes = [place.node(port, "--impair", spec + str(i)) for i in (2, 3)]
        finish(run)
        for node in nodes:
            finish(node)
        place.train("b", "--standalone", 0)
        place.train("c", "--standalone", 2, "--impair", "mtu=576")
        same_weights(place, ["a", "b", "c"])


def samples_are_sent():
    """Nodes without the data, or with other data of that name, get it from the coordinator; --data
    finds a copy elsewhere."""
    with Place() as place:
        place.train("b", "--standalone", 0)
        port = free_port()
        run = place.coordinator("train", "run.json", "--out", "a", "--nodes", 2, "--listen",
                                f"127.0.0.1:{port}")
        wait_for(run, "0/2 nodes joined")
        elsewhere = place.path / "elsewhere"
        elsewhere.mkdir()
        for file in place.path.glob("*.gz"):
            shutil.move(str(file), elsewhere)
        wrong = place.path / "wrong"
        wrong.mkdir()
        make_set(wrong, "train", 600, 7)
        make_set(wrong, "test", 300, 8)
        nodes = [place.node(port, "--name", "poor", "--data", wrong),
                 place.node(port, "--name", "rich", "--data", elsewhere)]
        finish(run)
        for node in nodes:
            finish(node)
        same_weights(place, ["a", "b"])
        table = (place.path / "a" / "nodes.csv").read_text().splitlines()
        rows = {row.split(",")[0]: dict(zip(table[0].split(","), row.split(",")))
                for row in table[1:]}
        check(rows["poor"]["train_data"] == "sent" and rows["rich"]["train_data"] == "own",
              str(rows))
        check(0 < int(rows["poor"]["samples_sent"]) <= 900, str(rows))
        check(rows["rich"]["samples_sent"] == "0", str(rows))


def verify_names_the_difference():
    with Place() as place:
        place.train("a", "--standalone", 0)
        place.train("b", "--standalone", 0, "--set", "train.optimizer.lr=0.04")
        out = finish(place.coordinator("verify", "a", "b"), expect=1)[0]
        check("first step that differs: 0" in out, out)
        check(re.search(r"tensor 0\.weight, element \d+", out), out)
        finish(place.coordinator("verify", "a", "nothing"), expect=2)
        finish(place.coordinator("verify", "a"), expect=2)
        finish(place.coordinator("hash", "nothing"), expect=2)
        place.train("a", "--standalone", 0, expect=2)
        check(len(place.steps("a")) == 20, "a second run wrote into the first one's directory")


if __name__ == "__main__":
    main({function.__name__: function for function in (
        quickstart, b07_prime_samples, b08_b17_unequal_shares, b10_evaluation,
        b24_one_line_a_step, json_lines, both_protocols, bad_links, samples_are_sent, verify_names_the_difference)})
