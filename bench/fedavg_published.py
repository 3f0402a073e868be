#!/usr/bin/env python3
"""FedAvg on Fashion-MNIST in the published setting, its accuracies beside the published ones.

    bench/fedavg_published.py [--cleave build/release/cleave] [--only iid|three-labels] [--rounds 50] [--threads N]

From the root of the project. Ten clients, all of them in every round, ten local epochs, batch 64, SGD with rate 0.01, momentum 0.9 and decay
1e-5, optimizers begun anew in every round; the figure is the best accuracy on the test set over all rounds. A run that was interrupted goes on
where it was: start it again. Says how long rounds take, and after every round how long the rest will. Exits 1 if an accuracy is below
the published mean less two deviations; with fewer than 50 rounds nothing is demanded.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
PUBLISHED = {"iid": (89.23, 0.45), "three-labels": (82.43, 1.52)}  # mean and deviation, in percent
KEYS = {"iid": ["edge.partition=iid"], "three-labels": ["edge.partition=labels", "edge.labels=3"]}
ROUNDS = 50


def pack(cleave):
    pathlib.Path("runs").mkdir(exist_ok=True)
    for part, name in (("train", "train"), ("t10k", "test")):
        packed = pathlib.Path(f"runs/fashion-{name}.set")
        if not packed.exists():
            subprocess.run([cleave, "data", "pack", IMAGES / f"{part}-images-idx3-ubyte.gz", "--size", "28", "--channels", "1",
                            "--out", packed], check=True)


def command_of(options, name, out):
    keys = ['edge.sync_every="10 epochs"', "edge.keep_slots=false", f"train.steps={options.rounds}", f"train.out={out}",
            "train.checkpoint_every=1", *KEYS[name]]
    if options.threads:
        keys.append(f"devices.threads={options.threads}")
    command = [options.cleave, "train", "examples/federated/run.toml", "--json"]
    for key in keys:
        command += ["--set", key]
    return command + (["--resume"] if (out / "checkpoints").exists() else ["--overwrite"])


def accuracies(out):
    """[round] -> accuracy in percent, of those that log.jsonl has."""
    log = out / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {line["step"]: 100 * line["accuracy"] for line in lines if "accuracy" in line}


def follow(process, out, rounds, name):
    """Says what rounds come to while they are played."""
    begin, before = time.monotonic(), len(accuracies(out))
    said = before
    while process.poll() is None:
        time.sleep(1)
        found = accuracies(out)
        if len(found) <= said:
            continue
        said = len(found)
        each = (time.monotonic() - begin) / (said - before)
        last = max(found)
        print(f"{name}: round {last} of {rounds}, {found[last]:.2f} %, best {max(found.values()):.2f} %; {each:.1f} s a round, "
              f"{each * (rounds - last) / 60:.0f} min to go", flush=True)
    return (time.monotonic() - begin) / max(1, len(accuracies(out)) - before)


def play(options, name):
    out = pathlib.Path(f"runs/published-{name}")
    with open(f"runs/published-{name}.json", "w") as report:
        process = subprocess.Popen(command_of(options, name, out), stdout=report)
        each = follow(process, out, options.rounds, name)
    if process.returncode != 0:
        sys.exit(f"{name}: cleave train ended with {process.returncode}")
    found = accuracies(out)
    if max(found) < options.rounds:  # asked to stop, which is no failure of its own
        sys.exit(f"{name}: stopped after round {max(found)} of {options.rounds}, best {max(found.values()):.2f} %; start it again to go on")
    return max(found.values()), each


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--only", choices=sorted(PUBLISHED))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threads", type=int, default=0, help="of the device; default: as the config has it")
    options = parser.parse_args()
    pack(options.cleave)
    short = []
    rows = [f"{'run':14}{'best':>9}{'published':>18}{'at least':>10}{'a round':>10}"]
    for name in [options.only] if options.only else list(PUBLISHED):
        best, each = play(options, name)
        mean, deviation = PUBLISHED[name]
        least = mean - 2 * deviation
        rows.append(f"{name:14}{best:>7.2f} %{mean:>9.2f} ± {deviation:.2f} %{least:>8.2f} %{each:>8.1f} s")
        if options.rounds >= ROUNDS and best < least:
            short.append(name)
    print("\n".join(rows))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
