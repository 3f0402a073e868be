#!/usr/bin/env python3
"""Is the plan that `auto` picks the best there is?

Runs every plan of a small case on emulated devices (axes, microbatch, schedule, chunks and every
partition), then the best ten and what `auto` picks once more, in turns:

    bench/auto_brute_force.py unequal
    bench/auto_brute_force.py pipeline
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

CLEAVE = os.environ.get("CLEAVE", pathlib.Path(__file__).resolve().parents[1] / "build/release/cleave")
CONFIG = """
[model]
layers = {layers}
hidden = 32
heads = 2
vocab = 64
context = 16
[train]
batch = 8
sequence = 16
steps = 5
warmup = 0
out = "{out}"
[devices]
count = 4
speed = {speed}
emulate = "f=1.5ms,i=1.5ms,w=1.5ms,per=layer"
"""
LAYERS = 4
# Devices that differ, everything open; and a pipeline of equal ones, where schedules decide.
CASES = {
    "unequal": {"speed": [1, 1, 2, 4], "pipelines": [1, 2, 4]},
    "pipeline": {"speed": [1, 1, 1, 1], "pipelines": [4]},
}
SCHEDULES = [("1f1b", 1), ("gpipe", 1), ("zb-h1", 1), ("zb-h2", 1), ("interleaved", 2), ("looped-bfs", 2),
             ("zbv", 2), ("v-half", 2), ("v-min", 2), ("dualpipev", 2), ("interleaved", 3), ("looped-bfs", 3)]


def partitions(stages):
    """Every stage but the first and the last, which have embedding and head, needs a layer."""
    if stages == 1 or stages > LAYERS + 2:
        return [[LAYERS]] if stages == 1 else []
    ranges = [range(0 if s in (0, stages - 1) else 1, LAYERS + 1) for s in range(stages)]
    return [list(p) for p in itertools.product(*ranges) if sum(p) == LAYERS]


def plans(case):
    for pipeline in case["pipelines"]:
        data = 4 // pipeline
        for microbatch in [m for m in (1, 2, 4, 8) if 8 // data % m == 0]:
            for schedule, chunks in SCHEDULES if pipeline > 1 else [("1f1b", 1)]:
                for partition in partitions(pipeline * chunks):
                    yield {"parallel.pipeline": pipeline, "parallel.data": data, "parallel.chunks": chunks,
                           "parallel.schedule": schedule, "parallel.partition": partition,
                           "train.microbatch": microbatch}


def run(config, keys):
    command = [CLEAVE, "train", config, "--json", "--overwrite"]
    for key, value in keys.items():
        command += ["--set", f"{key}={json.dumps(value)}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def open_keys(case):
    keys = {"parallel.schedule": "auto", "train.microbatch": "auto"}
    if len(case["pipelines"]) > 1:
        return keys | {"parallel.pipeline": "auto", "parallel.data": "auto"}
    return keys | {"parallel.pipeline": case["pipelines"][0]}


def describe(keys):
    return " ".join(f"{key.split('.')[1]}={value}" for key, value in keys.items())


def sweep(config, case, file):
    """(seconds, keys) of every plan; those in `file` are not run again."""
    known = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
    times = [(seconds, keys) for seconds, keys in known]
    for keys in list(plans(case))[len(times):]:
        times.append((run(config, keys)["step_seconds"], keys))
        if file:
            with file.open("a") as lines:
                lines.write(json.dumps(times[-1]) + "\n")
    return sorted(times, key=lambda time: time[0])


def in_turns(config, candidates):
    """Median seconds of each of them over three rounds of ten steps, and the last reports."""
    reports = [[run(config, keys | {"train.steps": 10}) for keys in candidates] for _ in range(3)]
    seconds = [statistics.median(r["step_seconds"] for r in turns) for turns in zip(*reports)]
    return seconds, reports[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--times", type=pathlib.Path, help="keep the times of all plans there, and go on from it")
    arguments = parser.parse_args()
    case = CASES[arguments.case]
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "run.toml"
        config.write_text(CONFIG.format(layers=LAYERS, out=directory + "/out", speed=case["speed"]))
        times = sweep(config, case, arguments.times)
        best = [keys for _, keys in times[:10]]
        seconds, reports = in_turns(config, best + [open_keys(case)])
    for time, keys in sorted(zip(seconds, best), key=lambda pair: pair[0])[:3]:
        print(f"{1e3 * time:8.2f} ms  {describe(keys)}")
    mine, predicted = seconds[-1], reports[-1]["predicted_step_seconds"]
    print(f"{1e3 * mine:8.2f} ms  auto, predicted {1e3 * predicted:.2f} ms")
    print(f"{len(times)} plans from {1e3 * times[0][0]:.1f} to {1e3 * times[-1][0]:.1f} ms; auto takes "
          f"{100 * (mine / min(seconds[:-1]) - 1):+.1f} % against the best of them")


if __name__ == "__main__":
    main()
