#!/usr/bin/env python3
"""How much of a disk's bandwidth a step uses whose optimizer is on it.

    bench/spill_bandwidth.py --spill DIR [--cleave build/release/cleave] [--rounds N]

The disk first: a file of 1 GiB, written and read in turns in direct blocks of 32 MiB, which is what OUT and IN do. Then a GPT with
`parallel.offload = "optimizer"` and `devices.spill = DIR`: all bytes of its OUT and IN, over the time from the first IN to the
end of the last OUT in the trace of its last step. In turns, the median of each. Exits 1 below 0.8, or if the weights are not those of a run without offload.
"""

import argparse
import json
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """
[model]
kind = "gpt"
layers = 12
hidden = 640
heads = 10
vocab = 256
context = 64
[data]
tokenizer = "bytes"
[train]
batch = 1
microbatch = 1
sequence = 64
steps = 4
warmup = 0
seed = 3
[parallel]
offload = "{offload}"
[devices]
threads = 2
{spill}
"""
BLOCK = 32 << 20
BLOCKS = 32


def disk_bandwidth(directory):
    """Bytes per second of writes and reads in turns, past the system's cache."""
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(directory, "cleave-bandwidth")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    try:
        os.unlink(path)
        os.posix_fallocate(descriptor, 0, BLOCK * BLOCKS)
        memory = mmap.mmap(-1, BLOCK)
        memory.write(b"\x5a" * BLOCK)
        start = time.monotonic()
        for block in range(BLOCKS):
            os.pwritev(descriptor, [memory], block * BLOCK)
            os.preadv(descriptor, [memory], (block // 2) * BLOCK)
        return 2 * BLOCK * BLOCKS / (time.monotonic() - start)
    finally:
        os.close(descriptor)


def train(cleave, text, offload, spill, trace=None):
    with tempfile.TemporaryDirectory() as out:
        config = pathlib.Path(out, "run.toml")
        config.write_text(CONFIG.format(offload=offload, spill=f'spill = "{spill}"' if spill else ""))
        command = [cleave, "train", config, "--json", "--set", f"data.path={text}", "--set", f"train.out={out}/run"]
        if trace:
            command += ["--trace", trace]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads(done.stdout)


def moving_seconds(trace):
    """From the first IN to the end of the last OUT, of the step that was measured: the first of two that a trace has."""
    times = []
    for event in json.loads(pathlib.Path(trace).read_text())["traceEvents"]:
        name = event.get("name", "")
        if event["pid"] == 0 and event.get("cat") == "message" and name.startswith(("IN:", "OUT:")):
            times.append(event["ts"])
    return (max(times) - min(times)) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--spill", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        text = pathlib.Path(directory, "text.txt")
        text.write_bytes(bytes(32 + (i * 7919) % 90 for i in range(1 << 16)))
        kept = train(arguments.cleave, text, "none", None)
        disk, used = [], []
        for _ in range(arguments.rounds):
            disk.append(disk_bandwidth(arguments.spill))
            trace = str(pathlib.Path(directory, "trace.json"))
            moved = train(arguments.cleave, text, "optimizer", arguments.spill, trace)
            bytes_ = 2 * moved["devices"][0]["outside_bytes"]
            seconds = moving_seconds(trace)
            used.append(bytes_ / seconds)
            print(f"disk {disk[-1] / 1e9:.2f} GB/s, step {bytes_ / 1e9:.2f} GB in {seconds:.3f} s: {used[-1] / 1e9:.2f} GB/s", flush=True)
        ratio = statistics.median(used) / statistics.median(disk)
        same = moved["weights"] == kept["weights"]
        print(f"median {ratio:.2f} of the disk's bandwidth; the weights are {'the same' if same else 'OTHERS'}")
        sys.exit(0 if ratio >= 0.8 and same else 1)


if __name__ == "__main__":
    main()
