#!/usr/bin/env python3
"""Trains tiny models in many layouts and lists the weights hash, the losses and the planned bytes of each.

    bench/layout_hashes.py [--cleave build/release/cleave] [--only WORD] > hashes.csv
    bench/layout_hashes.py --against OTHER_BINARY [--only WORD]

The second form runs both binaries and says where they differ; it exits 1 if weights or losses differ anywhere, or if
planned bytes have grown. It is how a change that should change no bit shows that it does not.
"""

import argparse
import csv
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

GPT = "model.kind=gpt model.layers=4 model.hidden=64 model.heads=4 model.vocab=256 model.context=32"
LLAMA = ("model.kind=llama model.layers=4 model.hidden=64 model.heads=4 model.kv_heads=2 model.vocab=256 "
         "model.context=32 model.tie_embeddings=false")
COMMON = ("train.steps=3 train.batch=8 train.sequence=32 train.warmup=1 train.lr=1e-3 numerics.data_shards=4 "
          "numerics.tensor_shards=2 data.validation=0")
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_pml": "ob1",
       "HWLOC_COMPONENTS": "-opencl"}


def layout(pipeline=1, tensor=1, data=1, transport="local", **keys):
    keys = {"parallel." + name: value for name, value in keys.items()}
    keys |= {"parallel.pipeline": pipeline, "parallel.tensor": tensor, "parallel.data": data,
             "devices.count": pipeline * tensor * data, "devices.transport": transport}
    return keys


def configs():
    """Name -> keys: for each model and dtype, one device and a sample of every axis, schedule and option."""
    layouts = {
        "alone": layout(),
        "alone, recompute full": layout(recompute="full"),
        "pipeline 2": layout(2),
        "pipeline 2, gpipe, recompute selective": layout(2, schedule="gpipe", recompute="selective"),
        "pipeline 2, zb-h1": layout(2, schedule="zb-h1"),
        "pipeline 2, zbv": layout(2, schedule="zbv"),
        "pipeline 2, interleaved": layout(2, schedule="interleaved", chunks=2),
        "pipeline 4, auto": layout(4, schedule="auto"),
        "tensor 2": layout(1, 2),
        "tensor 2, sequence parallel": layout(1, 2, sequence_parallel="true"),
        "pipeline 2 x tensor 2, zb-h1": layout(2, 2, schedule="zb-h1", sequence_parallel="true"),
        "data 2": layout(1, 1, 2),
        "data 2, zero 1": layout(1, 1, 2, zero=1),
        "data 2, zero 2": layout(1, 1, 2, zero=2),
        "data 4, zero 3": layout(1, 1, 4, zero=3),
        "pipeline 2 x data 2, zero 3, recompute full": layout(2, 1, 2, zero=3, recompute="full"),
        "pipeline 2 x tensor 2 x data 2, zero 1": layout(2, 2, 2, zero=1, schedule="zb-h1"),
        "mpi: pipeline 2": layout(2, transport="mpi"),
        "mpi: pipeline 2 x tensor 2": layout(2, 2, transport="mpi"),
        "mpi: data 2, zero 2": layout(1, 1, 2, transport="mpi", zero=2),
    }
    for (kind, model), dtype in itertools.product({"gpt": GPT, "llama": LLAMA}.items(), ("f32", "bf16")):
        for name, keys in layouts.items():
            words = f"{model} {COMMON} train.dtype={dtype}".split()
            yield f"{kind} {dtype}, {name}", words + [f"{key}={value}" for key, value in keys.items()]


def run(cleave, keys, data):
    """(weights, losses, planned bytes of each device) of one run."""
    with tempfile.TemporaryDirectory() as out:
        config = pathlib.Path(out, "run.toml")
        config.write_text("")
        command = [cleave, "train", str(config), "--json"]
        for key in keys + [f"data.path={data}", f"train.out={out}/run"]:
            command += ["--set", key]
        if "devices.transport=mpi" in keys:
            count = next(key.split("=")[1] for key in keys if key.startswith("devices.count"))
            command = ["mpirun", "-np", count] + command
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | MPI, timeout=300)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed: {done.stderr}")
        report = json.loads(done.stdout)
        losses = [json.loads(line).get("loss") for line in open(f"{out}/run/log.jsonl")]
    losses = " ".join(repr(loss) for loss in losses if loss is not None)
    return report["weights"], losses, " ".join(str(each["planned_bytes"]) for each in report["devices"])


def compare(name, old, new):
    """What differs, in words; and whether that is forbidden."""
    if old[:2] != new[:2]:
        return f"{name}: weights {old[0]} -> {new[0]}, losses {old[1]} -> {new[1]}", True
    if old[2] != new[2]:
        grown = any(int(b) > int(a) for a, b in zip(old[2].split(), new[2].split()))
        return f"{name}: planned bytes {'grew' if grown else 'shrank'}, {old[2]} -> {new[2]}", grown
    return None, False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--against", help="an older binary to compare with")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="for --cleave alone: what an older binary did without a key for it, as numerics.exact=false")
    parser.add_argument("--only", default="", help="only configs whose name contains this")
    arguments = parser.parse_args()
    data = pathlib.Path(__file__).resolve().parent.parent / "LICENSE"
    chosen = [(name, keys) for name, keys in configs() if arguments.only in name]
    if not arguments.against:
        rows = csv.writer(sys.stdout)
        rows.writerow(["config", "weights", "losses", "planned_bytes"])
        for name, keys in chosen:
            rows.writerow([name, *run(arguments.cleave, keys + arguments.set, data)])
            sys.stdout.flush()
        return
    failed = 0
    for name, keys in chosen:
        difference, forbidden = compare(name, run(arguments.against, keys, data),
                                        run(arguments.cleave, keys + arguments.set, data))
        failed += forbidden
        if difference:
            print(difference)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
