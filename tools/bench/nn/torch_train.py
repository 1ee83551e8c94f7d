#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""PyTorch's side of tools/bench/nn/run: one thread, the networks and steps of nn-bench.

A step: gather a shuffled batch from float32 in memory, zero_grad, forward, cross entropy,
backward, optimiser.  Prints one JSON line like nn-bench's."""
import argparse
import gzip
import json
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

NETS = {"mlp512": ([784, 512, 512, 10], torch.nn.ReLU),
        "udp200": ([784, 200, 200, 200, 10], torch.nn.Sigmoid),
        "wide2048": ([784, 2048, 2048, 10], torch.nn.ReLU)}
WARM_UP_S = 0.3


def read_idx(path, header):
    if not os.path.exists(path):
        path += ".gz"
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def build(name):
    widths, activation = NETS[name]
    layers = []
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        layers.append(torch.nn.Linear(inputs, outputs))
        if i < len(widths) - 2:
            layers.append(activation())
    return torch.nn.Sequential(*layers)


def optimizer(name, net):
    if name == "sgd":
        return torch.optim.SGD(net.parameters(), lr=0.05)
    if name == "momentum":
        return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    return torch.optim.Adam(net.parameters(), lr=0.001)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=NETS, default="mlp512")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--opt", choices=("sgd", "momentum", "adam"), default="sgd")
    parser.add_argument("--secs", type=float, default=1.0)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    pixels = read_idx(args.data + "/train-images-idx3-ubyte", 16).reshape(-1, 784)
    x = torch.from_numpy(pixels.astype(np.float32) / 255.0)
    y = torch.from_numpy(read_idx(args.data + "/train-labels-idx1-ubyte", 8).astype(np.int64))
    net = build(args.model)
    opt = optimizer(args.opt, net)
    order, cursor = torch.randperm(len(x)), 0

    def step():
        nonlocal order, cursor
        if cursor + args.batch > len(x):
            order, cursor = torch.randperm(len(x)), 0
        ids = order[cursor:cursor + args.batch]
        cursor += args.batch
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x[ids]), y[ids])
        loss.backward()
        opt.step()
        return loss

    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < WARM_UP_S or steps < 5:
        step()
        steps += 1
    wall, cpu, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - wall < args.secs or steps < 3:
        loss = step()
        steps += 1
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    samples = steps * args.batch
    print(json.dumps({"kind": "train", "model": args.model, "batch": args.batch, "opt": args.opt,
                      "threads": 1, "sps": round(samples / wall), "cpu_sps": round(samples / cpu),
                      "last_loss": round(loss.item(), 4), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
