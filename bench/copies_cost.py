#!/usr/bin/env python3
"""What train.copies = 1 adds to a step of a served run, where compute can hide it.

    bench/copies_cost.py [--cleave build/release/cleave] [--rounds N]

Two devices of one thread each, with and without copies in turns. A step computes 32 sequences, so that the state travels
while it does. On an otherwise idle machine with two cores or more. Exits 1 if the median with copies is more than 3 % above
that without.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

from served_pair import over_loopback

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
        for number in range(arguments.rounds):
            for copies in seconds:
                report = over_loopback(cleave, directory, [f"train.copies={copies}"])
                seconds[copies].append(report["step_seconds"])
                weights.add(report["weights"])
            print(f"round {number + 1} of {arguments.rounds}: {seconds[0][-1] * 1e3:.1f} ms, with a copy "
                  f"{seconds[1][-1] * 1e3:.1f} ms", file=sys.stderr, flush=True)
    assert len(weights) == 1, weights
    without, with_copies = (statistics.median(seconds[copies]) for copies in (0, 1))
    print(f"step without copies {without * 1e3:.1f} ms, with one {with_copies * 1e3:.1f} ms: "
          f"{(with_copies / without - 1) * 100:+.1f} %")
    sys.exit(1 if with_copies > 1.03 * without else 0)


if __name__ == "__main__":
    main()
