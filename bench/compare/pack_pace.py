#!/usr/bin/env python3
"""How fast is `cleave data pack` beside Pillow? Both read the same JPEGs of 640 x 480, make 224 x 224 of them with the bicubic
filter, cut in the middle, and write bytes, on one thread and in turns.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install pillow numpy
    /tmp/venv/bin/python bench/compare/pack_pace.py --program build/release/cleave --images 400 --rounds 5

Times are of the processor, in user mode and in the kernel, so that other programs on the machine disturb both less; the ratio is that of
the medians, and its range that of the turns. Those of cleave include starting, checksums and the index of the set. Versions of Pillow up to 12
give the same bytes, which is checked then; later ones resize rows first for some shapes.
"""
import argparse
import importlib.machinery
import importlib.util
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

from PIL import Image, __version__

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIDE = 224
LOADER = importlib.machinery.SourceFileLoader("golden", str(ROOT / "scripts" / "image_golden"))
golden = importlib.util.module_from_spec(importlib.util.spec_from_loader("golden", LOADER))
LOADER.exec_module(golden)


def write_images(folder, count):
    """Eight pictures, each under many names: what is in a file counts, not how many there are."""
    pictures = [Image.fromarray(golden.picture(640, 480, 3, seed)) for seed in range(8)]
    (folder / "one").mkdir(parents=True)
    for i in range(count):
        pictures[i % len(pictures)].save(folder / "one" / f"{i:05}.jpg", quality=90)


def with_cleave(program, folder, out):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "data", "pack", str(folder), "--size", str(SIDE), "--threads", "1", "--out", str(out)],
                   check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    out_bytes = out.read_bytes()
    out.unlink()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out_bytes


def with_pillow(folder, out):
    start = time.process_time()
    with open(out, "wb") as file:
        for path in sorted((folder / "one").iterdir()):
            image = Image.open(path).convert("RGB")
            file.write(golden.fitted(image, (SIDE, SIDE), "crop", Image.Resampling.BICUBIC).tobytes())
    seconds = time.process_time() - start
    return seconds, out.read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/cleave")
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    times = {"cleave": [], "Pillow": []}
    with tempfile.TemporaryDirectory() as place:
        folder, out = pathlib.Path(place, "images"), pathlib.Path(place, "out")
        write_images(folder, arguments.images)
        for _ in range(arguments.rounds):
            seconds, packed = with_cleave(arguments.program, folder, out)
            times["cleave"].append(seconds)
            seconds, made = with_pillow(folder, out)
            times["Pillow"].append(seconds)
            if int(__version__.split(".")[0]) < 13 and made not in packed:
                raise SystemExit("the bytes are not Pillow's")
    for name, each in times.items():
        print(f"{name}: {arguments.images / statistics.median(each):.0f} images/s")
    ratios = [b / a for a, b in zip(times["cleave"], times["Pillow"])]
    ratio = statistics.median(times["Pillow"]) / statistics.median(times["cleave"])
    print(f"cleave packs {ratio:.2f} times as fast as Pillow {__version__} ({min(ratios):.2f} to {max(ratios):.2f} in turns)")


if __name__ == "__main__":
    main()
