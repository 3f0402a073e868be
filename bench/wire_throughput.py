#!/usr/bin/env python3
"""What the wire carries, against MPI over its own TCP and against what AES takes; and what a step costs over either.

    bench/wire_throughput.py [--build build/release] [--rounds N] [--seconds S]

Three ratios, each of medians over rounds in which the contenders take turns:
  plain   throughput of tcp without TLS / of MPI with --mca btl tcp,self, messages of 8 MiB one way; wanted: 0.9 or more
  tls     throughput of tcp with TLS / what `openssl speed -evp aes-256-gcm` does on one core; wanted: 0.4 or more
  step    step time of a two-device pipeline that has joined a server / over MPI's TCP; wanted: 1.05 or less
On an otherwise idle machine with two cores or more, where it takes about a minute. Needs the targets cleave and comm_bench,
mpirun and openssl. Says what each round gave on standard error. Exits 1 if a ratio is missed, 2 if something is not there.
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
import time

from served_pair import over_loopback

CONFIG = """
[model]
layers = 4
hidden = 256
heads = 4
vocab = 512
context = 128
[data]
path = "{0}/data.txt"
[train]
batch = 8
microbatch = 1
sequence = 128
steps = 30
warmup = 0
out = "{0}/out"
[parallel]
pipeline = 2
"""
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "tcp,self", "-np", "2"]
BOUND = ["--bind-to", "core"]  # else the system may put both ends on one core, whoever the contender is
AES_BLOCK = 16384


PATIENCE = 100  # seconds for each of its programs


def output(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except FileNotFoundError:
        refuse(f"there is no {command[0]}; install it, or add it to PATH")
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(command)} is not done after {PATIENCE} s") from None
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with code {done.returncode}:\n{done.stderr}")
    return done.stdout


def refuse(why):
    print(f"wire_throughput: {why}", file=sys.stderr)
    sys.exit(2)


def rates(build):
    """GB/s of MPI, tcp and tls, at 8 MiB."""
    text = output([*MPIRUN, *BOUND, f"{build}/bench/comm_bench", "wire"])
    line = next(line for line in text.splitlines() if "8.00 MiB, one way" in line)
    return [float(rate) for rate in re.findall(r"([\d.]+) GB/s", line)]


def aes_rate():
    text = output(["openssl", "speed", "-mr", "-seconds", "1", "-bytes", str(AES_BLOCK), "-evp", "aes-256-gcm"])
    return 1e-9 * float(text.strip().splitlines()[-1].split(":")[-1])


def step_over_mpi(build, directory):
    report = output([*MPIRUN, f"{build}/cleave", "train", f"{directory}/run.toml", "--json", "--overwrite"])
    return json.loads(report)["step_seconds"]


def step_over_tcp(build, directory):
    keys = ["train.elastic=false", 'devices.transport="tcp"']
    return over_loopback(str(build / "cleave"), directory, keys)["step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=80, help="after which no further round begins")
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    for program in [build / "cleave", build / "bench" / "comm_bench"]:
        if not os.access(program, os.X_OK):
            refuse(f"there is no {program}; build it: cmake --build {arguments.build} --target {program.name}")

    taken = {name: [] for name in ["mpi", "tcp", "tls", "aes", "mpi step", "tcp step"]}
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "run.toml").write_text(CONFIG.format(directory))
        pathlib.Path(directory, "data.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 2000)
        start = time.time()
        for number in range(arguments.rounds):
            for name, rate in zip(["mpi", "tcp", "tls"], rates(build)):
                taken[name].append(rate)
            taken["aes"].append(aes_rate())
            taken["mpi step"].append(step_over_mpi(build, directory))
            taken["tcp step"].append(step_over_tcp(build, directory))
            said = ", ".join(f"{name} {values[-1]:.4g}" for name, values in taken.items())
            print(f"round {number + 1} of {arguments.rounds}, {time.time() - start:.0f} s: {said}", file=sys.stderr, flush=True)
            if time.time() > start + arguments.seconds:
                break
    middle = {name: statistics.median(values) for name, values in taken.items()}
    print("| ratio | contender | of | ratio | wanted |\n| --- | --- | --- | --- | --- |")
    wanted = [("plain", "tcp", "mpi", "GB/s", 0.9, 1), ("tls", "tls", "aes", "GB/s", 0.4, 1),
              ("step", "tcp step", "mpi step", "s", 1.05, -1)]
    missed = False
    for name, ours, theirs, unit, limit, sign in wanted:
        ratio = middle[ours] / middle[theirs]
        missed = missed or sign * ratio < sign * limit
        print(f"| {name} | {middle[ours]:.4g} {unit} | {middle[theirs]:.4g} {unit} | {ratio:.2f} | "
              f"{'at least' if sign > 0 else 'at most'} {limit} |")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
