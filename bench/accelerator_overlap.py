#!/usr/bin/env python3
"""Two OpenCL devices in a pipeline: how much of OUT and IN of their messages is hidden behind kernels, and what the step costs.

    bench/accelerator_overlap.py [--cleave build/release/cleave] [--hidden 128] [--layers 4] [--microbatches 24] [--rounds 3]
                                 [--seconds 150] [--processes] [--trace FILE]

PoCL's devices of one process share its threads, one for each core (two at most here). With --processes each device is a process with a
single thread instead, under mpirun. 24 microbatches leave a pipeline of two 4 % of bubble. A round trains on one device with one
thread, once for each core and at the same time, which says how many seconds the kernels take of a core whose neighbours are as busy
as in the pipeline; on one device as the two have it, which says what a half takes alone; and on two, in turns, a few steps each. Rounds end after --seconds, the first one excepted. Printed, with medians over the rounds: the
share of OUT and IN time in the trace of the last step in which a kernel ran, on the same device and on any; the step, against
max(the slower half alone, kernel time of both halves / cores), where the whole model on one device, shared out as the two halves'
kernel times are, says what a half takes alone. Exits 1 if less than 80 % is hidden behind kernels, if the step is more than 1.1 times
the bound, or if weights or bytes are not as they should be. Run it on a quiet machine with two cores or more.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

KERNELS = re.compile(r"\d+(\.\d+)?[FIWBR]\d+$")  # "0.2F1", what computes
CORES = min(2, len(os.sched_getaffinity(0)))


def train(cleave, keys, directory, threads, processes=1):
    """The report of a run whose devices have so many threads of PoCL, and the events of its last step."""
    config = pathlib.Path(directory, "run.toml")
    config.write_text("")
    trace = pathlib.Path(directory, "step.json")
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(processes)] if processes > 1 else []
    words += [cleave, "train", str(config), "--json", "--overwrite", "--trace", str(trace)]
    for key in keys:
        words += ["--set", key]
    env = {"POCL_DEVICES": "pthread pthread", "POCL_MAX_PTHREAD_COUNT": str(threads)}
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | env, timeout=300)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout), json.loads(trace.read_text())["traceEvents"]


def train_beside(cleave, keys, directory):
    """The reports of as many runs at once as there are cores, on one device with one thread each."""
    def one(core):
        own = pathlib.Path(directory, f"core{core}")
        own.mkdir(exist_ok=True)
        return train(cleave, keys + [f"train.out={own}/out"], own, 1)[0]

    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(one, range(CORES)))


def measured(events):
    """(kernels, moves) of the measured step: [(device, begin, end)], in seconds."""
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    process = next((pid for pid, name in names.items() if "measured" in name), min(names))
    own = [e for e in events if e.get("pid") == process]
    kernels = [(e["tid"], e["ts"], e["ts"] + e["dur"]) for e in own if e["ph"] == "X" and KERNELS.match(e["name"])]
    begins = {e["id"]: e for e in own if e["ph"] == "b" and e["name"].startswith(("OUT:", "IN:"))}
    moves = [(begins[e["id"]]["tid"], begins[e["id"]]["ts"], e["ts"]) for e in own if e["ph"] == "e" and e["id"] in begins]
    return [[(d, b / 1e6, e / 1e6) for d, b, e in spans] for spans in (kernels, moves)]


def hidden(moves, kernels, same):
    """The share of the moves' time in which a kernel ran, of the same device or of any."""
    total = covered = 0.0
    for device, begin, end in moves:
        total += end - begin
        at = begin
        for _, first, last in sorted((k for k in kernels if not same or k[0] == device), key=lambda k: k[1]):
            covered += max(0.0, min(end, last) - max(at, first))
            at = max(at, min(end, last))
    return covered / total if total > 0 else 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--trace", help="keeps the trace of the last step on two devices")
    args = parser.parse_args()
    rows, wrong = [], []
    own_threads = 1 if args.processes else CORES  # of the devices in the pipeline
    end = time.perf_counter() + args.seconds
    with tempfile.TemporaryDirectory() as directory:
        text = pathlib.Path(directory, "data.txt")
        text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
        keys = (f"model.kind=gpt model.layers={args.layers} model.hidden={args.hidden} model.heads=8 model.vocab=256 "
                f"model.context=128 train.sequence=128 train.batch={args.microbatches} train.microbatch=1 train.steps=3 train.warmup=1 "
                f"data.validation=0 devices.kind=opencl data.path={text} train.out={directory}/out").split()
        while not rows or (len(rows) < args.rounds and time.perf_counter() < end):
            beside = train_beside(args.cleave, keys, directory)
            alone = beside[0] if own_threads == 1 else train(args.cleave, keys, directory, own_threads)[0]
            both, events = train(args.cleave, keys + ["parallel.pipeline=2"], directory, own_threads,
                                 processes=2 if args.processes else 1)
            if args.trace:
                pathlib.Path(args.trace).write_text(json.dumps({"traceEvents": events}))
            if alone["weights"] != both["weights"]:
                wrong.append("other weights on two devices than on one")
            if any(d["host_bytes"] != d["planned_host_bytes"] or d["peak_bytes"] != d["planned_bytes"] for d in both["devices"]):
                wrong.append("memory is not as planned")
            kernels, moves = measured(events)
            parts = [d["compute"] for d in both["devices"]]
            slower = alone["step_seconds"] * max(parts) / sum(parts)
            kernel_time = statistics.mean(run["devices"][0]["compute"] for run in beside)
            step, bound = both["step_seconds"], max(slower, kernel_time / CORES)
            rows.append((hidden(moves, kernels, True), hidden(moves, kernels, False), len(moves), step, bound, step / bound))
            print(f"kernels {kernel_time * 1e3:.1f} ms of a core, one device {alone['step_seconds'] * 1e3:.1f} ms, slower half "
                  f"{slower * 1e3:.1f} ms, two {step * 1e3:.1f} ms, {step / bound:.3f} of the bound", file=sys.stderr)
    own, any_device, moves, step, bound, ratio = (statistics.median(column) for column in zip(*rows))
    host = max(d["host_bytes"] for d in both["devices"])
    print(f"{moves:.0f} moves in a step through {host} bytes of the host's memory; hidden behind kernels: {own:.0%} on the same "
          f"device, {any_device:.0%} on any")
    print(f"{len(rows)} rounds: step {step * 1e3:.1f} ms, {ratio:.2f} of max(slower half alone, kernel time / {CORES} cores) = "
          f"{bound * 1e3:.1f} ms")
    if any_device < 0.8:
        wrong.append("less than 80 % is hidden behind kernels")
    if ratio > 1.1:
        wrong.append("the step is more than 1.1 times the bound")
    for problem in dict.fromkeys(wrong):
        print(problem)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
