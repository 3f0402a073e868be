#!/usr/bin/env python3
"""Predicted against measured steps of a served pipeline over links of 10 Mbit/s to 1 Gbit/s, and of up to 100 ms.

    bench/wire_rates.py [--cleave build/release/cleave] [--rates 10,100,1000] [--latencies 0,20,100] [--steps N]

Two network namespaces of this machine (slow_network.py), the server in one, a device in the other. `hidden` is what the
plan makes of the latency: receives posted so many instructions ahead, and microbatches begun early; `compute` what a step
takes over a link that is not limited, so that measured / compute shows what the link costs. Needs the right to make
namespaces, and removes them at its end. Exits 1 if a measured step is off by more than 10 %.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from served_pair import Pair
from slow_network import SlowNetwork

CONFIG = """
[model]
layers = 4
hidden = 256
heads = 4
vocab = 256
context = 64
[data]
path = "{0}/data.txt"
[train]
batch = 8
microbatch = 1
sequence = 64
warmup = 0
out = "{0}/out"
[parallel]
pipeline = 2
"""
UNLIMITED = 100_000  # Mbit/s


def run(cleave, directory, network, steps):
    home = {**os.environ, "XDG_STATE_HOME": f"{directory}/state", "XDG_CACHE_HOME": f"{directory}/cache"}
    keys = ["--state", f"{directory}/server"]
    invitation = subprocess.run([cleave, "serve", "invite", *keys], check=True, capture_output=True, text=True,
                                env=home).stdout.split()[0]
    server = [*network.prefix(0), cleave, "serve", f"{directory}/run.toml", "--json", "--overwrite", "--listen",
              f"{network.address(0)}:4242", *keys, "--set", f"train.steps={steps}"]
    with Pair(server, home) as pair:
        report = pair.report([*network.prefix(1), cleave, "join", pair.address, "--invitation", invitation, "--keys",
                              f"{directory}/keys"])
        return report, pair.said


def measure(cleave, mbit, latency, steps):
    """Predicted and measured seconds of a step, and what the plan does about the latency."""
    with tempfile.TemporaryDirectory() as directory, SlowNetwork(mbit, latency) as network:
        pathlib.Path(directory, "run.toml").write_text(CONFIG.format(directory))
        pathlib.Path(directory, "data.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 500)
        report, said = run(cleave, directory, network, steps)
    ahead = re.search(r"receives are posted (\d+) instructions? ahead(?:, and devices begin (\d+))?", said)
    return report["predicted_step_seconds"], report["step_seconds"], ahead


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--rates", default="10,100,1000", help="Mbit/s, separated by commas")
    parser.add_argument("--latencies", default="0,20,100", help="ms that a packet takes one way, separated by commas")
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    cleave = str(pathlib.Path(arguments.cleave).resolve())
    if not os.access(cleave, os.X_OK):
        raise SystemExit(f"there is no {cleave}; build it: cmake --build build/release --target cleave")

    _, compute, _ = measure(cleave, UNLIMITED, 0, arguments.steps)
    print(f"compute {compute * 1e3:.1f} ms\n")
    print("| Mbit/s | latency | hidden | predicted | measured | predicted / measured | measured / compute |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    missed = False
    for latency in map(float, arguments.latencies.split(",")):
        for rate in map(int, arguments.rates.split(",")):
            predicted, measured, ahead = measure(cleave, rate, 1e-3 * latency, arguments.steps)
            missed = missed or abs(predicted / measured - 1) > 0.1
            hidden = f"{ahead[1]} ahead, {ahead[2] or 0} early" if ahead else ""
            print(f"| {rate} | {latency:g} ms | {hidden} | {predicted * 1e3:.1f} ms | {measured * 1e3:.1f} ms | "
                  f"{predicted / measured:.3f} | {measured / compute:.2f} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
