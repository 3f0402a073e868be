#!/usr/bin/env python3
"""Predicted against measured on four emulated devices with speeds 1 : 1 : 2 : 4, cut by `auto`.

    bench/unequal_devices.py [--cleave build/release/cleave] [--rounds N]

Once with room for everything, and once with memory in which the fastest device cannot hold what its speed would have it
hold. On an otherwise idle machine. Exits 1 if a measured step is off by more than 5 %.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

CONFIG = """
[model]
layers = 8
hidden = 32
heads = 2
vocab = 64
context = 16
[train]
batch = 8
sequence = 16
steps = 10
warmup = 0
[devices]
count = 4
speed = [1, 1, 2, 4]
emulate = "f=4ms,i=4ms,w=3ms,per=layer"
{memory}
[parallel]
pipeline = 4
schedule = "auto"
partition = "auto"
"""
CASES = {"room for everything": "", "unequal memory": 'memory = ["2MiB", "1.7MiB", "1.9MiB", "1.6MiB"]'}


def run(cleave, memory):
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "run.toml"
        config.write_text(CONFIG.format(memory=memory))
        command = [cleave, "train", config, "--json", "--set", f"train.out={directory}/out"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()

    failed = False
    print("| case | predicted | measured | ratio |\n| --- | --- | --- | --- |")
    for name, memory in CASES.items():
        for _ in range(arguments.rounds):
            report = run(str(pathlib.Path(arguments.cleave).resolve()), memory)
            predicted, measured = report["predicted_step_seconds"], report["step_seconds"]
            failed = failed or abs(measured / predicted - 1) > 0.05
            print(f"| {name} | {predicted * 1e3:.1f} ms | {measured * 1e3:.1f} ms | {predicted / measured:.3f} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
