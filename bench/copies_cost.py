#!/usr/bin/env python3
"""What train.copies = 1 adds to a step of a served run, where compute can hide it.

    bench/copies_cost.py [--cleave build/release/cleave] [--rounds N]

Two devices of one thread each, with and without copies in turns. A step computes 32 sequences, so that the state travels
while it does. On an otherwise idle machine with two cores or more. Exits 1 if the median with copies is more than 3 % above
that without.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

CONFIG = """
[model]
layers = 4
hidden = 128
heads = 4
vocab = 256
context = 128
[data]
path = "{0}/data.txt"
[train]
batch = 32
microbatch = 2
sequence = 128
steps = 20
warmup = 0
out = "{0}/out"
[parallel]
pipeline = 2
"""


def run(cleave, directory, copies):
    command = [cleave, "serve", f"{directory}/run.toml", "--insecure", "--json", "--overwrite", "--listen", "127.0.0.1:0",
               "--set", f"train.copies={copies}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = None
    while address is None:
        address = re.search(r"listening on ([\d.:]+\d)", server.stderr.readline())
    device = subprocess.Popen([cleave, "join", address[1], "--insecure"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": f"{directory}/cache"})
    report, _ = server.communicate()
    device.wait()
    return json.loads(report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    cleave = str(pathlib.Path(arguments.cleave).resolve())

    seconds, weights = {0: [], 1: []}, set()
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "run.toml").write_text(CONFIG.format(directory))
        pathlib.Path(directory, "data.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 2000)
        for _ in range(arguments.rounds):
            for copies in seconds:
                report = run(cleave, directory, copies)
                seconds[copies].append(report["step_seconds"])
                weights.add(report["weights"])
    assert len(weights) == 1, weights
    without, with_copies = (statistics.median(seconds[copies]) for copies in (0, 1))
    print(f"step without copies {without * 1e3:.1f} ms, with one {with_copies * 1e3:.1f} ms: "
          f"{(with_copies / without - 1) * 100:+.1f} %")
    sys.exit(1 if with_copies > 1.03 * without else 0)


if __name__ == "__main__":
    main()
