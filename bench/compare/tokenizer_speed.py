#!/usr/bin/env python3
"""How fast is `cleave data tokenize` beside Hugging Face's tokenizers? Both read the same text with the tokenizers of
tests/golden/tokenizer, and take turns.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers sentencepiece
    /tmp/venv/bin/python bench/compare/tokenizer_speed.py --program build/release/cleave --megabytes 10 --rounds 3

On one thread times are of the processor, in user mode, so that other programs on the machine disturb both less, and the
ratio is that of the medians. With --threads 2 they are of the clock, and the least of each is taken: on a machine with
other work it says little. Those of cleave include starting, reading the text and writing the tokens.
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

THREADS = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv[:-1] else 1
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ["TOKENIZERS_PARALLELISM"] = "false" if THREADS == 1 else "true"  # before the library is loaded
os.environ["RAYON_NUM_THREADS"] = str(THREADS)

LOADER = importlib.machinery.SourceFileLoader("golden", str(ROOT / "scripts" / "tokenizer_golden"))
golden = importlib.util.module_from_spec(importlib.util.spec_from_loader("golden", LOADER))
LOADER.exec_module(golden)


def texts(megabytes):
    writer, documents, size = golden.Writer(11), [], 0
    while size < megabytes * 1e6:
        documents.append(writer.document(writer.r.choice([50, 500, 5000, 50000])))
        size += len(documents[-1].encode())
    return documents, size


def seconds(who, work):
    before, start = resource.getrusage(who).ru_utime, time.monotonic()
    work()
    return resource.getrusage(who).ru_utime - before if THREADS == 1 else time.monotonic() - start


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--program", default="build/release/cleave")
    flags.add_argument("--megabytes", type=float, default=10)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--threads", type=int, default=1)
    given = flags.parse_args()
    documents, size = texts(given.megabytes)
    with tempfile.TemporaryDirectory() as place:
        source = pathlib.Path(place) / "text.jsonl"
        source.write_text("".join(json.dumps({"text": d}) + "\n" for d in documents))
        for path in sorted(golden.FOLDER.glob("*.json")):
            tokenizer = golden.Tokenizer.from_file(str(path))
            command = [given.program, "data", "tokenize", str(source), "--tokenizer", str(path), "--threads", str(THREADS),
                       "--out", str(pathlib.Path(place) / "tokens.u32.bin")]
            theirs, ours = [], []
            for _ in range(given.rounds):
                theirs.append(seconds(resource.RUSAGE_SELF, lambda: tokenizer.encode_batch(documents)))
                ours.append(seconds(resource.RUSAGE_CHILDREN,
                                         lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                                                                stderr=subprocess.DEVNULL)))
            middle = statistics.median if THREADS == 1 else min
            a, b = middle(theirs), middle(ours)
            print(f"{path.stem}: theirs {size / a / 1e6:.2f} MB/s, ours {size / b / 1e6:.2f} MB/s, "
                  f"{a / b:.2f} times as fast", flush=True)


if __name__ == "__main__":
    main()
