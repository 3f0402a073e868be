#!/usr/bin/env python3
"""Asks the planner many questions, and compares the answers of two binaries.

    bench/plan_answers.py --against OTHER_BINARY [--cleave build/release/cleave] [--only WORD]

Questions are about clusters (searches, single layouts, what does not fit) and about `auto` in configs with emulated devices. Whatever
is chosen, counted, refused or named has to be equal, and numbers to twelve digits. It exits 1 if anything differs.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile

CLUSTERS = {
    "gpt3-175b": ["a100-80gb:1024 1536", "h100:512 1024", "v100-32gb:1024 1024", "a100-40gb:64 64"],
    "llama3-8b": ["h100:64 512", "a100-80gb:8 64", "v100-16gb:8 32", "h100:7 14", "h200:1 4"],
    "llama3-70b": ["h100:256 1024", "gb200:144 576", "tpu-v5p:512 1024", "a100-80gb:24 96", "b200:16 60"],
    "preset=llama3-8b,sequence=16384": ["h100:32 64", "a100-40gb:8 16"],
    "kind=gpt,layers=6,hidden=1024,heads=16,sequence=512": ["v100:8 64", "cpu-amx:4 16", "tpu-v4:12 48"],
    "kind=llama,layers=30,hidden=4096,heads=32,kv_heads=8,tie_embeddings=true": ["h100:48 96", "a100-40gb:6 12"],
    "kind=gpt,layers=40,hidden=6144,heads=48,attention=plain": ["h100:64 128", "a100-80gb:32 64"],
    "kind=gpt,layers=40,hidden=6144,heads=48,attention=flash,tie_embeddings=false": ["a100-80gb:32 64"],
    "preset=llava-1.5-7b,sequence=2048": ["a100-80gb:16 128", "h100:3 24", "a100-40gb:8 64", "v100-16gb:8 32"],
}
LEARNING = {
    "preset=llava-1.5-7b,sequence=2048": ["projector", "projector,language", "vision"],
}
LAYOUTS = {
    "gpt3-175b": [
        "tp=8,pp=4,dp=32,microbatch=2,chunks=3,recompute=full",
        "tp=8,pp=16,dp=8,microbatch=1,chunks=6,schedule=interleaved,zero=1,recompute=selective,sequence_parallel=true",
        "tp=4,pp=8,dp=32,chunks=2,schedule=zbv,zero=1,recompute=full",
        "tp=1,pp=1,dp=1024,zero=3,recompute=full", "tp=8,pp=1,dp=128,zero=2", "tp=2,pp=64,dp=8,schedule=gpipe",
        "tp=8,pp=98,dp=1", "tp=3,pp=1", "tp=8,pp=4,dp=7", "tp=8,pp=4,schedule=1f2b", "tp=8,pp=128", "tp=8,pp=4,microbatch=5",
        "tp=8,pp=4,zero=4", "tp=8,pp=4,chunks=3,schedule=zbv", "tp=16,pp=32,dp=2,schedule=zb-h1,microbatch=4",
        "tp=64,pp=1,dp=16", "tp=8,pp=8,dp=16,chunks=3,schedule=looped-bfs", "tp=8,pp=8,dp=16,schedule=auto",
    ],
    "llama3-8b": ["tp=1,pp=32,dp=32,schedule=zb-h2", "tp=2,pp=16,dp=32,chunks=2,schedule=v-half,recompute=full",
                  "tp=1,pp=1,dp=1024,zero=3", "tp=8,pp=2,dp=64,zero=2,sequence_parallel=true", "tp=5", "tp=1,pp=34",
                  "tp=4,pp=8,dp=32,chunks=4,microbatch=3"],
    "kind=gpt,layers=30,hidden=8192,heads=64": ["tp=8,pp=32,dp=4", "tp=8,pp=16,dp=8", "tp=8,pp=4,dp=32,zero=1"],
    "preset=llava-1.5-7b,sequence=2048": ["tp=4,pp=8,dp=32", "tp=2,pp=16,dp=32,schedule=gpipe,recompute=full",
                                          "tp=1,pp=4,dp=256,zero=1,chunks=2,schedule=zbv", "tp=16,pp=8,dp=8", "tp=32,pp=1,dp=32"],
}


def cluster_questions():
    for model, rows in CLUSTERS.items():
        for row in rows:
            cluster, batch = row.split()
            yield ["plan", "--model", model, "--cluster", cluster, "--batch", batch]
    for (model, rows), row in itertools.product(LEARNING.items(), ["a100-80gb:16 128", "v100-16gb:4 16"]):
        cluster, batch = row.split()
        for learns in rows:
            yield ["plan", "--model", model, "--train", learns, "--cluster", cluster, "--batch", batch]
    for model, layouts in LAYOUTS.items():
        for layout in layouts:
            yield ["plan", "--model", model, "--cluster", "a100-80gb:1024", "--batch", "1536", "--layout", layout]


MODEL = ("model.kind=gpt model.layers=8 model.hidden=32 model.heads=2 model.vocab=64 model.context=16 train.batch=16 "
         "train.sequence=16 train.microbatch=auto parallel.pipeline=auto parallel.tensor=auto parallel.data=auto "
         "parallel.schedule=auto parallel.chunks=auto parallel.partition=auto parallel.zero=auto parallel.recompute=auto")
EMULATED = ["devices.emulate=f=4ms,i=4ms,w=3ms", "devices.emulate=f=1ms,i=2ms,w=0.5ms,per=layer"]
CONFIGS = ["devices.count=1", "devices.count=2", "devices.count=4", "devices.count=8", "devices.count=6",
           "devices.count=4 devices.speed=[1,1,2,4]", "devices.count=4 parallel.data=2", "devices.count=4 parallel.schedule=zb-h1",
           "devices.count=4 parallel.grid=any", 'devices.count=4 devices.memory="64KiB"', 'devices.count=4 devices.memory="2KiB"',
           "devices.count=3 parallel.data=2", "devices.count=4 parallel.partition=[2,2,2,2]", "devices.count=2 parallel.chunks=2"]


def config_questions():
    for emulated, config in itertools.product(EMULATED, CONFIGS):
        keys = {key.split("=")[0]: key for key in (MODEL + " " + config).split()}
        question = ["plan", "run.toml"]
        for key in [*keys.values(), emulated]:
            question += ["--set", key]
        yield question


def answer(cleave, question):
    """(exit code, errors, JSON without what a clock says)."""
    with tempfile.TemporaryDirectory() as folder:
        open(f"{folder}/run.toml", "w").close()
        done = subprocess.run([cleave, *question, "--json"], capture_output=True, text=True, cwd=folder, timeout=300)
    facts = json.loads(done.stdout) if done.stdout else {}
    for clock in ("search_seconds", "planning_seconds", "plan_seconds"):
        facts.pop(clock, None)
    errors = [line for line in done.stderr.splitlines() if "other threads compute" not in line]
    return {"exit": done.returncode, "errors": errors, "facts": facts}


def differences(old, new, path=""):
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [each for key in old for each in differences(old[key], new[key], f"{path}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [each for i, pair in enumerate(zip(old, new)) for each in differences(*pair, f"{path}[{i}]")]
    if isinstance(old, float) and isinstance(new, (int, float)) and math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-15):
        return []
    return [] if old == new else [f"{path}: {old!r} -> {new!r}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--against", required=True, help="an older binary to compare with")
    parser.add_argument("--only", default="", help="only questions that contain this")
    arguments = parser.parse_args()
    binaries = [os.path.abspath(path) for path in (arguments.against, arguments.cleave)]
    questions = [q for q in [*cluster_questions(), *config_questions()] if arguments.only in " ".join(q)]
    failed = 0
    for question in questions:
        found = differences(*(answer(binary, question) for binary in binaries))
        failed += bool(found)
        if found:
            print("cleave", " ".join(question), *found[:5], sep="\n  ")
    print(f"{len(questions) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
