#!/usr/bin/env python3
"""What a step takes whose activations move to the host and back, against one that keeps them, on emulated devices.

    bench/offload_link.py [--cleave build/release/cleave] [--link 4GB/s] [--rounds N]

Two devices with half of gpt2-124m each, whose F, I and W take so long that moving takes 40, 50 and 60 % of the compute at the
given rate. In turns, the median of each. Exits 1 if a step with moves takes more than 1.05 of one without, if one is off its
prediction by more than 5 %, or if memory inside or outside is not as planned.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

CONFIG = """
[model]
preset = "gpt2-124m"
vocab = 256
[train]
batch = 16
microbatch = 1
sequence = 512
steps = 5
warmup = 0
[devices]
count = 2
emulate = "f={seconds}s,i={seconds}s,w={seconds}s,host={link}"
[parallel]
pipeline = 2
offload = "{offload}"
"""
# Bytes that the busier device moves out and back in a step, as plans of this config have them.
MOVED = 16 * 2 * 6 * 23.6e6


def train(cleave, seconds, link, offload):
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory, "run.toml")
        config.write_text(CONFIG.format(seconds=seconds, link=link, offload=offload))
        done = subprocess.run(
            [cleave, "train", config, "--json", "--set", f"train.out={directory}/run"], capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads(done.stdout)


def as_planned(report):
    return all(
        d["peak_bytes"] == d["planned_bytes"] and d["outside_bytes"] == d["planned_outside_bytes"] for d in report["devices"]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--link", default="4GB/s")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    units = {"GB/s": 1e9, "MB/s": 1e6}
    rate = float(arguments.link[:-4]) * units[arguments.link[-4:]]
    well = True
    print("moving / compute   kept   moved   ratio   predicted / measured")
    for share in (0.4, 0.5, 0.6):
        seconds = round(MOVED / rate / share / (3 * 16), 4)
        kept, moved, predicted = [], [], []
        for _ in range(arguments.rounds):
            kept.append(train(arguments.cleave, seconds, arguments.link, "none")["step_seconds"])
            report = train(arguments.cleave, seconds, arguments.link, "activations")
            moved.append(report["step_seconds"])
            predicted.append(report["predicted_step_seconds"] / moved[-1])
            well = well and as_planned(report)
        ratio = statistics.median(moved) / statistics.median(kept)
        guess = statistics.median(predicted)
        well = well and ratio <= 1.05 and abs(guess - 1) <= 0.05
        print(
            f"{share:16.2f} {statistics.median(kept):6.3f} {statistics.median(moved):7.3f} {ratio:7.3f} {guess:22.3f}",
            flush=True,
        )
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
