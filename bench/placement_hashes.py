#!/usr/bin/env python3
"""Trains a tiny vision-language model, a CLIP and a U-Net in many placements: one hash of weights for each model, and planned bytes
that are the measured ones on every device.

    bench/placement_hashes.py [--cleave build/release/cleave] [--only WORD]

Prints a line for each run that fails, and then for each model how many placements gave which hash; exits 1 if a model has two, or if a
device held other than its plan says.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from layout_hashes import MPI, layout

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "image"
FILES = ("colour.jpg", "grey.png", "bits.png")
SAMPLES = 48
COMMON = ("train.steps=2 train.batch=16 train.microbatch=2 train.warmup=1 train.lr=1e-3 numerics.data_shards=4 "
          "data.validation=0").split()
SCHEDULES = ("1f1b", "gpipe", "zb-h1", "auto")
SHARING = ((1, 0), (2, 0), (2, 1), (2, 2), (4, 3))  # replicas, ZeRO


def pack(cleave, directory):
    """Model -> its packed set. Of four conversations one has no image, and one has two."""
    talk, pairs, classes = [], ["path,caption"], ["path,label"]
    for i in range(SAMPLES):
        own = [FILES[(i + k) % 3] for k in range((0, 1, 1, 2)[i % 4])]
        talk.append(json.dumps({"image": own, "conversations": [{"from": "human", "value": "<image>" * len(own) + "?"},
                                                               {"from": "gpt", "value": f"{i}."}]}))
        pairs.append(f"{FILES[i % 3]},picture {i}")
        classes.append(f"{FILES[i % 3]},{i % 3}")
    sets = {}
    for name, lines, flags in (("talk.jsonl", talk, ["--capacity", "2"]), ("pairs.csv", pairs, []),
                               ("classes.csv", classes, ["--channels", "1"])):
        source = pathlib.Path(directory, name)
        source.write_text("\n".join(lines) + "\n")
        sets[source.stem] = f"{directory}/{source.stem}.set"
        subprocess.run([cleave, "data", "pack", str(source), "--images", str(IMAGES), "--size", "28", "--out",
                        sets[source.stem], *flags], check=True, capture_output=True)
    return sets


def name_of(keys):
    return " ".join(f"{key.split('.', 1)[-1]}={value}" for key, value in keys.items())


def vlm():
    """Where the tower is, over stages, schedules and replicas; then what else may differ."""
    places = [dict(), dict(placement="first"), dict(placement="auto")]
    for pipeline, (data, zero), place in itertools.product((2, 3), SHARING, places):
        schedule = SCHEDULES[(pipeline + data + zero + places.index(place)) % 4]
        yield layout(pipeline, 1, data, zero=zero, schedule=schedule, **place)
    for pipeline, schedule in itertools.product((2, 3, 4), SCHEDULES):
        for own in range(1, pipeline):
            yield layout(pipeline, schedule=schedule, placement="own") | {"parallel.vision.pipeline": own}
    for data, zero in SHARING:
        yield layout(2, 1, data, zero=zero, schedule="interleaved", chunks=2, placement="shared")
    for recompute, schedule, pipeline in itertools.product(("selective", "full"), ("1f1b", "zb-h1"), (1, 2, 3)):
        yield layout(pipeline, recompute=recompute, schedule=schedule)
    for cut in ([1, 3], [2, 2], [3, 1], [0, 4], [4, 0]):
        yield layout(2, partition=cut)
    for offload in ("activations",):
        yield layout(2, offload=offload)
    for transport in ({"pipeline": 2}, {"pipeline": 2, "data": 2, "zero": 1}, {"pipeline": 3, "placement": "auto"}):
        yield layout(transport="mpi", **transport)
    yield from (layout(pipeline, schedule=schedule) for pipeline in (1, 4) for schedule in SCHEDULES)
    yield from replicas()
    yield from rooms(layout(), layout(2, recompute="full"), layout(3, 1, 2, zero=3, schedule="zb-h1"), layout(2, offload="activations"),
                     layout(transport="mpi", pipeline=2), unequal(2, 1, 1, 1))


def rooms(*layouts, images_of=(3, 4, 8)):
    """Room for images that microbatches do not have: it changes no bit."""
    for images, keys in itertools.product(images_of, layouts):
        yield keys | {"data.images": images}


def tensors():
    """Layouts of a grid with two tensor shards."""
    for tensor, pipeline, (data, zero) in itertools.product((1, 2), (1, 2), SHARING[:4]):
        yield layout(pipeline, tensor, data, zero=zero)
    for pipeline, place in itertools.product((2, 3), ("first", "auto")):
        yield layout(pipeline, 2, placement=place)
    for (vision, language), tensor in itertools.product(((2, 1), (1, 2), (4, 2)), (1, 2)):
        yield unequal(vision, language, 1, 1, tensor)
    for divided in ("false", "true"):
        yield layout(2, 2) | {"parallel.sequence_parallel": divided}
    yield from rooms(layout(), layout(1, 2), layout(2, 2, recompute="selective") | {"parallel.sequence_parallel": "true"})


def frozen():
    for pipeline, (data, zero), place in itertools.product((1, 2), SHARING, (dict(), dict(placement="auto"))):
        if pipeline > 1 or not place:
            yield layout(pipeline, 1, data, zero=zero, **place)
    for schedule, own in itertools.product(SCHEDULES, (1, 2)):
        yield layout(3, schedule=schedule, placement="own") | {"parallel.vision.pipeline": own}
    for schedule, (vision, language) in itertools.product(SCHEDULES, ((4, 2), (4, 1), (1, 2))):
        yield unequal(vision, language, 1, 1, schedule=schedule, zero=1)
    yield from rooms(layout(), layout(2, 1, 2, zero=1))


def replicas():
    """Modules with different numbers of replicas: (vision, language), stages of each, schedules, ZeRO, recomputation."""
    for (vision, language), (own, rest), schedule in itertools.product(
            ((4, 2), (4, 1), (2, 1), (1, 2), (1, 4), (2, 4)), ((1, 1), (1, 2), (2, 1)), SCHEDULES):
        yield unequal(vision, language, own, rest, schedule=schedule)
    for (vision, language), zero, recompute in itertools.product(
            ((4, 2), (4, 1), (1, 2), (2, 4)), (1, 2, 3), ("none", "full", "selective")):
        yield unequal(vision, language, 1, 2, zero=zero, recompute=recompute)
    for transport in ((2, 1), (1, 2), (4, 2)):
        yield unequal(*transport, 1, 1, transport="mpi", zero=1)


def unequal(vision, language, own, rest, tensor=1, **keys):
    return layout(own + rest, tensor, language, placement="own", **keys) | {
        "parallel.vision.pipeline": own, "parallel.vision.data": vision,
        "devices.count": tensor * (own * vision + rest * language)}


def degrees():
    """Modules with tensor degrees of their own, of a grid with four tensor shards: (vision, language), stages of each."""
    for (vision, language), (own, rest), schedule in itertools.product(
            ((1, 2), (2, 1), (1, 4), (4, 1), (2, 4), (4, 2)), ((1, 1), (1, 2), (2, 1)), SCHEDULES):
        yield unlike(vision, language, own, rest, schedule=schedule)
    for (vision, language), (data, zero), recompute in itertools.product(
            ((1, 2), (2, 1), (1, 4)), SHARING[1:4], ("none", "full", "selective")):
        yield unlike(vision, language, 1, 1, data, zero=zero, recompute=recompute)
    for (vision, language), replicas_of in itertools.product(((1, 2), (2, 1)), ((2, 1), (1, 2), (4, 2))):
        yield unlike(vision, language, 1, 1, replicas_of[1], replicas_of[0])
    for transport in ((1, 2), (2, 1), (1, 4), (2, 4)):
        yield unlike(*transport, 1, 1, transport="mpi")
    for tensor, pipeline in itertools.product((1, 2, 4), (1, 2)):
        yield layout(pipeline, tensor)
    yield unlike(1, 2, 1, 1, offload="both")
    yield from rooms(layout(), unlike(1, 2, 1, 1), unlike(4, 1, 1, 1, 2, zero=1), unlike(2, 4, 1, 1, transport="mpi"),
                     images_of=(4, 8))  # rows of the room must divide by the shards


def unlike(vision, language, own, rest, data=1, vision_data=None, **keys):
    return layout(own + rest, language, data, placement="own", **keys) | {
        "parallel.vision.pipeline": own, "parallel.vision.tensor": vision, "parallel.vision.data": vision_data or data,
        "devices.count": own * vision * (vision_data or data) + rest * language * data}


def cached():
    """With what the tower gives computed in every step, or once and kept beside the set; one grid."""
    for cache, pipeline, (data, zero) in itertools.product(("false", "true"), (1, 2), SHARING):
        yield layout(pipeline, 1, data, zero=zero) | {"data.cache": cache}
    for cache, schedule in itertools.product(("false", "true"), SCHEDULES):
        yield layout(3, schedule=schedule, placement="own") | {"parallel.vision.pipeline": 1, "data.cache": cache}
    yield from rooms(*(layout(pipeline) | {"data.cache": "true"} for pipeline in (1, 2)))


def deepstack():
    """A tower that feeds several language layers."""
    yield from chosen()
    for pipeline, (data, zero), place in itertools.product((2, 3), SHARING, (dict(), dict(placement="first"))):
        yield layout(pipeline, 1, data, zero=zero, schedule=SCHEDULES[(pipeline + data + zero) % 4], **place)
    for schedule, own in itertools.product(SCHEDULES, (1, 2)):
        yield layout(3, schedule=schedule, placement="own") | {"parallel.vision.pipeline": own}
    for recompute, pipeline in itertools.product(("selective", "full"), (1, 2)):
        yield layout(pipeline, recompute=recompute)
    yield layout(transport="mpi", pipeline=2, data=2, zero=1)
    yield from rooms(layout(), layout(3, schedule="zb-h1"))


def chosen():
    """What "auto" chooses for so many devices."""
    for count in (1, 2, 3, 4):
        yield layout() | {"devices.count": count} | {f"parallel.{axis}": "auto" for axis in
                                                     ("pipeline", "tensor", "data", "zero", "recompute", "schedule")}


def clip():
    yield from chosen()
    for pipeline, (data, zero), recompute in itertools.product((1, 2, 3), SHARING, ("none", "full")):
        yield layout(pipeline, 1, data, zero=zero, schedule="gpipe", recompute=recompute)
    for pipeline in (2, 3, 4):
        yield layout(pipeline, schedule="auto")


def unet():
    yield from chosen()
    for pipeline, (data, zero) in itertools.product((1, 2, 3), SHARING):
        yield layout(pipeline, 1, data, zero=zero, schedule=SCHEDULES[(pipeline + data + zero) % 4])
    for pipeline, schedule in itertools.product((2, 3, 4), SCHEDULES):
        yield layout(pipeline, schedule=schedule)
    for pipeline in (1, 2, 3):
        yield layout(pipeline, recompute="full")


VLM = ["model.preset=vlm-tiny", "train.sequence=48"]
DEEPSTACK = ["model.preset=deepstack-tiny", "train.sequence=48"]
MODELS = {
    "vlm": (VLM, "talk", {"data.images": 2}, vlm),
    "vlm, two tensor shards": (VLM + ["numerics.tensor_shards=2"], "talk", {"data.images": 2}, tensors),
    "vlm, four tensor shards": (VLM + ["numerics.tensor_shards=4"], "talk", {"data.images": 2}, degrees),
    "vlm, projector learns": (VLM + ['model.train=["projector"]'], "talk", {"data.images": 2}, frozen),
    "vlm, tower kept": (VLM + ['model.train=["projector", "language"]'], "talk", {"data.images": 2}, cached),
    "deepstack": (DEEPSTACK, "talk", {"data.images": 2}, deepstack),
    "deepstack, tower kept": (DEEPSTACK + ['model.train=["projector"]'], "talk", {"data.images": 2}, cached),
    "clip": (["model.preset=clip-tiny", "train.sequence=24"], "pairs", {}, clip),
    "siglip": (["model.preset=siglip-tiny", "train.sequence=24"], "pairs", {}, chosen),
    "unet": (["model.preset=unet-tiny"], "classes", {}, unet),
}


def run(cleave, keys):
    """(weights, devices whose measured bytes differ from the plan), or what went wrong."""
    with tempfile.TemporaryDirectory() as out:
        config = pathlib.Path(out, "run.toml")
        config.write_text("")
        command = [cleave, "train", str(config), "--json"]
        for key in keys + [f"train.out={out}/run"]:
            command += ["--set", key]
        if "devices.transport=mpi" in keys:
            count = next(key.split("=")[1] for key in keys if key.startswith("devices.count"))
            command = ["mpirun", "-np", count] + command
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | MPI, timeout=300)
        if done.returncode != 0:
            return None, done.stderr.strip()
        report = json.loads(done.stdout)
    unlike = [d for d, each in enumerate(report["devices"]) if each["planned_bytes"] != each["peak_bytes"]]
    return report["weights"], unlike


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--only", default="", help="only models whose name contains this")
    arguments = parser.parse_args()
    failed, count = 0, 0
    with tempfile.TemporaryDirectory() as directory:
        sets = pack(arguments.cleave, directory)
        for model, (words, data, usual, placements) in MODELS.items():
            if arguments.only not in model:
                continue
            hashes = collections.Counter()
            for keys in placements():
                keys = usual | keys
                given = COMMON + words + [f"data.path={sets[data]}"] + [f"{key}={value}" for key, value in keys.items()]
                weights, wrong = run(arguments.cleave, given)
                count += 1
                if weights is None or wrong:
                    failed += 1
                    print(f"{model}, {name_of(keys)}: {wrong}", flush=True)
                if weights is not None:
                    hashes[weights] += 1
            failed += len(hashes) != 1
            print(f"{model}: " + ", ".join(f"{times} placements have {weights}" for weights, times in hashes.most_common()),
                  flush=True)
    print(f"{count} runs, {'all as they should be' if failed == 0 else f'{failed} faults'}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
