#!/usr/bin/env python3
"""How fast is `cleave data tokenize` beside Hugging Face's tokenizers? Both read the same text with the tokenizers of
tests/golden/tokenizer, on one thread, and take turns; the ratio is that of the medians.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers sentencepiece
    /tmp/venv/bin/python bench/compare/tokenizer_speed.py --program build/release/cleave --megabytes 10 --rounds 3

Times are of the processor, in user mode, so that other programs on the machine disturb both less. Those of cleave include
starting, reading the text and writing the tokens.
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
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

LOADER = importlib.machinery.SourceFileLoader("golden", str(ROOT / "scripts" / "tokenizer_golden"))
golden = importlib.util.module_from_spec(importlib.util.spec_from_loader("golden", LOADER))
LOADER.exec_module(golden)


def texts(megabytes):
    writer, documents, size = golden.Writer(11), [], 0
    while size < megabytes * 1e6:
        documents.append(writer.document(writer.r.choice([50, 500, 5000, 50000])))
        size += len(documents[-1].encode())
    return documents, size


def user_seconds(who, work):
    before = resource.getrusage(who).ru_utime
    work()
    return resource.getrusage(who).ru_utime - before


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--program", default="build/release/cleave")
    flags.add_argument("--megabytes", type=float, default=10)
    flags.add_argument("--rounds", type=int, default=3)
    given = flags.parse_args()
    documents, size = texts(given.megabytes)
    with tempfile.TemporaryDirectory() as place:
        source = pathlib.Path(place) / "text.jsonl"
        source.write_text("".join(json.dumps({"text": d}) + "\n" for d in documents))
        for path in sorted(golden.FOLDER.glob("*.json")):
            tokenizer = golden.Tokenizer.from_file(str(path))
            command = [given.program, "data", "tokenize", str(source), "--tokenizer", str(path), "--threads", "1",
                       "--out", str(pathlib.Path(place) / "tokens.u32.bin")]
            theirs, ours = [], []
            for _ in range(given.rounds):
                theirs.append(user_seconds(resource.RUSAGE_SELF, lambda: tokenizer.encode_batch(documents)))
                ours.append(user_seconds(resource.RUSAGE_CHILDREN,
                                         lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                                                                stderr=subprocess.DEVNULL)))
            a, b = statistics.median(theirs), statistics.median(ours)
            print(f"{path.stem}: theirs {size / a / 1e6:.2f} MB/s, ours {size / b / 1e6:.2f} MB/s, "
                  f"{a / b:.2f} times as fast", flush=True)


if __name__ == "__main__":
    main()
