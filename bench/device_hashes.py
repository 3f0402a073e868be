#!/usr/bin/env python3
"""Trains tiny models on every kind of device and instruction set at hand, and counts the hashes: one per model and dtype.

    bench/device_hashes.py [--cleave build/release/cleave] [--only WORD] [--also "COMMAND"]

A combination is a model, a dtype, an instruction set (CLEAVE_ISA, those with fused multiply-add that this processor has), the
kinds of the devices (processors, OpenCL devices if there are any, both) and a layout. --also names another cleave, which trains
every model and dtype as well, alone and in a pipeline: "qemu-aarch64 -L build/arm-root build/arm/cleave" for one of AArch64.
Exits 1 if one has other weights or another validation loss than the first of its model and dtype, or uses other memory than was
planned.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from placement_hashes import pack

MODELS = {
    "gpt": "model.kind=gpt model.layers=4 model.hidden=32 model.heads=4 model.vocab=256 model.context=16",
    "llama": "model.kind=llama model.layers=4 model.hidden=32 model.heads=4 model.kv_heads=2 model.vocab=256 "
             "model.context=16 model.tie_embeddings=false",
}
SHORT = "train.sequence=16 numerics.tensor_shards=2"  # of the models above
# Model -> its keys, its set, and its layouts.
IMAGE_MODELS = {
    "vlm": ("model.preset=vlm-tiny train.sequence=48 data.images=2", "talk",
            ("alone", "pipeline 2", "data 2, zero 1", "data 2, zero 3", "recompute")),
    "deepstack": ("model.preset=deepstack-tiny train.sequence=48 data.images=2", "talk",
                  ("alone", "pipeline 2", "data 2, zero 1")),
    "clip": ("model.preset=clip-tiny train.sequence=24 parallel.schedule=gpipe", "pairs",
             ("alone", "pipeline 2", "data 2, zero 1", "recompute")),
    "siglip": ("model.preset=siglip-tiny train.sequence=24 parallel.schedule=gpipe", "pairs",
               ("alone", "pipeline 2", "data 2, zero 1")),
    "unet": ("model.preset=unet-tiny", "classes", ("alone", "pipeline 2", "data 2, zero 3")),
}
COMMON = ("train.steps=2 train.batch=8 train.warmup=1 train.lr=1e-2 numerics.data_shards=2 numerics.exact=true "
          "data.validation=0.2")
LAYOUTS = {
    "alone": "",
    "pipeline 2": "parallel.pipeline=2",
    "pipeline 2, zb-h1": "parallel.pipeline=2 parallel.schedule=zb-h1",
    "tensor 2": "parallel.tensor=2",
    "data 2": "parallel.data=2",
    "data 2, zero 1": "parallel.data=2 parallel.zero=1",
    "data 2, zero 3": "parallel.data=2 parallel.zero=3",
    "recompute": "parallel.recompute=full",
    "offload": "parallel.offload=activations",
    "pipeline 2, offload": "parallel.pipeline=2 parallel.offload=activations",
}
SETS = {"AVX3": ["avx2", "avx512"], "AVX2": ["avx2"]}
ELSEWHERE = ("alone", "pipeline 2")  # layouts of --also
MIXED = ("pipeline 2", "data 2, zero 1", "tensor 2", "pipeline 2, offload")


def ask(cleave, *words, env=None):
    done = subprocess.run([*cleave.split(), *words], capture_output=True, text=True, env=os.environ | (env or {}), timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def elsewhere():
    """The same as combinations(), for another program."""
    for (model, shape), dtype, name in itertools.product(MODELS.items(), ("f32", "bf16"), ELSEWHERE):
        yield (f"{model} {dtype}", name, f"{shape} {COMMON} {SHORT} train.dtype={dtype} {LAYOUTS[name]}".split(), "text", {})
    for (model, (shape, data, _)), dtype, name in itertools.product(IMAGE_MODELS.items(), ("f32", "bf16"), ELSEWHERE):
        yield (f"{model} {dtype}", name,
               f"{shape} {COMMON} train.microbatch=2 train.dtype={dtype} {LAYOUTS[name]}".split(), data, {})


def combinations(machine):
    """(model and dtype, what else, keys, data, environment)"""
    sets = SETS.get(machine["simd"], [""])
    kinds = {"cpu": LAYOUTS}
    if machine["accelerators"]:
        kinds["opencl"] = LAYOUTS
        kinds['["cpu", "opencl"]'] = {name: LAYOUTS[name] for name in MIXED}
    for (model, shape), dtype in itertools.product(MODELS.items(), ("f32", "bf16")):
        for kind, layouts in kinds.items():
            for isa, (name, layout) in itertools.product(sets if kind != "opencl" else sets[-1:], layouts.items()):
                keys = f"{shape} {COMMON} {SHORT} train.dtype={dtype} {layout}".split() + [f"devices.kind={kind}"]
                yield (f"{model} {dtype}", f"{kind}, {isa or machine['simd']}, {name}", keys, "text",
                       {"CLEAVE_ISA": isa} if isa else {})
    for (model, (shape, data, names)), dtype in itertools.product(IMAGE_MODELS.items(), ("f32", "bf16")):
        for kind, name in itertools.product(kinds, names):
            if kind.startswith("[") and name not in MIXED:
                continue
            keys = f"{shape} {COMMON} train.microbatch=2 train.dtype={dtype} {LAYOUTS[name]}".split()
            yield f"{model} {dtype}", f"{kind}, {machine['simd']}, {name}", keys + [f"devices.kind={kind}"], data, {}


def run(cleave, keys, env, data):
    with tempfile.TemporaryDirectory() as out:
        config = pathlib.Path(out, "run.toml")
        config.write_text("")
        words = ["train", str(config), "--json"]
        for key in keys + [f"data.path={data}", f"train.out={out}/run"]:
            words += ["--set", key]
        return ask(cleave, *words, env=env | {"POCL_DEVICES": "pthread pthread"})


def as_planned(device):
    """In its own memory, outside of it, and of its messages in the host's."""
    return all(device[measured] == device[planned] for measured, planned in (
        ("peak_bytes", "planned_bytes"), ("outside_bytes", "planned_outside_bytes"), ("host_bytes", "planned_host_bytes")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--only", default="")
    parser.add_argument("--also", default="")
    args = parser.parse_args()
    hashes, count, wrong = {}, 0, 0
    with tempfile.TemporaryDirectory() as directory:
        text = pathlib.Path(directory, "data.txt")
        text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
        sets = pack(args.cleave, directory) | {"text": text}
        todo = [(args.cleave, *each) for each in combinations(ask(args.cleave, "doctor", "--json"))]
        if args.also:
            simd = ask(args.also, "doctor", "--json")["simd"]
            todo += [(args.also, model, f"cpu, {simd}, {rest}", *others) for model, rest, *others in elsewhere()]
        for cleave, model, rest, keys, data, env in todo:
            if args.only not in f"{model}, {rest}":
                continue
            report = run(cleave, keys, env, sets[data])
            found = report["weights"], report["validation_loss"]
            expected = hashes.setdefault(model, found)
            problem = "" if found == expected else f"; {expected} before"
            if not all(as_planned(device) for device in report["devices"]):
                problem += "; memory is not as planned"
            print(f"{model}, {rest}: {found[0]}, validation {found[1]:.6f}{problem}", flush=True)
            count += 1
            wrong += bool(problem)
    print(f"{count} combinations, {len(hashes)} models and dtypes, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
