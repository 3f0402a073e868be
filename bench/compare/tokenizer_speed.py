#!/usr/bin/env python3
"""How fast is `cleave data tokenize` beside Hugging Face's tokenizers? Both read the same documents, on one thread and then
on two, and take turns.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers sentencepiece
    /tmp/venv/bin/python bench/compare/tokenizer_speed.py --program build/release/cleave --megabytes 10 --rounds 3

The tokenizers are those of tests/golden/tokenizer, which know some hundred tokens. With --vocab 32000 they are trained anew first, on
other parts of the same text; with --text DIR the text is that of the files below it instead of made-up words.

On one thread times are of the processor, in user mode, so that other programs on the machine disturb both less; on two they are
of the clock. Speeds are of the medians, and behind them stands the least favourable round. Those of cleave include starting,
reading the text and writing the tokens. Exits 1 if cleave is slower with any tokenizer.
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

THREADS = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv[:-1] else 0
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ["TOKENIZERS_PARALLELISM"] = "false" if THREADS == 1 else "true"  # before the library is loaded
os.environ["RAYON_NUM_THREADS"] = str(THREADS)

LOADER = importlib.machinery.SourceFileLoader("golden", str(ROOT / "scripts" / "tokenizer_golden"))
golden = importlib.util.module_from_spec(importlib.util.spec_from_loader("golden", LOADER))
LOADER.exec_module(golden)


def made_up():
    writer = golden.Writer(11)
    while True:
        yield writer.document(writer.r.choice([50, 500, 5000, 50000]))


def files_below(directory):
    paths = sorted(path for path in pathlib.Path(directory).rglob("*") if path.is_file() and path.stat().st_size < 1 << 20)
    random.Random(1).shuffle(paths)
    for path in paths:
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        if text and "\0" not in text:
            yield text


def take(documents, megabytes):
    taken, size = [], 0
    for document in documents:
        taken.append(document)
        size += len(document.encode())
        if size >= megabytes * 1e6:
            return taken, size
    raise SystemExit(f"there is only {size / 1e6:.1f} MB of text; lower --megabytes or name another --text")


def trained(path, corpus, vocab):
    """The JSON of a tokenizer with the settings of the one at `path`, and so many tokens."""
    tokenizer, data = golden.Tokenizer.from_file(str(path)), json.loads(path.read_text())
    kind, model = golden.trainers, data["model"]
    special = [token["content"] for token in data["added_tokens"] if token["special"]]
    sizes = dict(vocab_size=vocab, show_progress=False)
    if model["type"] == "Unigram":
        special += [name for name, _ in model["vocab"] if name.startswith("<0x")]
        trainer = kind.UnigramTrainer(special_tokens=special, unk_token="<unk>", **sizes)
        tokenizer.pre_tokenizer = golden.pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    elif "Ġ" in model["vocab"]:
        trainer = golden.byte_level_trainer(vocab, special)
    else:
        special += [name for name in model["vocab"] if name.startswith("<0x")]
        suffix = {"end_of_word_suffix": model["end_of_word_suffix"]} if model["end_of_word_suffix"] else {}
        trainer = kind.BpeTrainer(special_tokens=special, limit_alphabet=3000, **suffix, **sizes)
        if not suffix:
            tokenizer.pre_tokenizer = golden.pre_tokenizers.Metaspace(prepend_scheme="never", split=True)
    tokenizer.train_from_iterator(corpus, trainer)
    data["model"] = {**model, **{k: v for k, v in json.loads(tokenizer.to_str())["model"].items() if k in ("vocab", "merges", "unk_id")}}
    # Special tokens come first and in order, so that their numbers in templates stay.
    byte_tokens = {f"<0x{b:02X}>" for b in range(256)}
    numbers = dict((name, i) for i, (name, _) in enumerate(data["model"]["vocab"])) if model["type"] == "Unigram" else data["model"]["vocab"]
    data["added_tokens"] = [{**token, "id": numbers[token["content"]]} for token in data["added_tokens"]
                            if token["content"] in numbers and token["content"] not in byte_tokens]
    return json.dumps(data)


def seconds(who, work):
    before, start = resource.getrusage(who).ru_utime, time.monotonic()
    work()
    return resource.getrusage(who).ru_utime - before if THREADS == 1 else time.monotonic() - start


def compare(given, path, documents, size, place):
    """Theirs takes how many times as long as ours, in the median."""
    tokenizer = golden.Tokenizer.from_file(str(path))
    command = [given.program, "data", "tokenize", str(place / "text.jsonl"), "--tokenizer", str(path), "--threads", str(THREADS),
               "--out", str(place / "tokens.u32.bin"), "--end-token", "none"]
    theirs, ours = [], []
    for _ in range(given.rounds):
        theirs.append(seconds(resource.RUSAGE_SELF, lambda: tokenizer.encode_batch(documents)))
        ours.append(seconds(resource.RUSAGE_CHILDREN, lambda: subprocess.run(command, check=True, capture_output=True)))
    expected = [i for encoding in tokenizer.encode_batch(documents) for i in encoding.ids]
    packed = (place / "tokens.u32.bin").read_bytes()
    same = packed == b"".join(i.to_bytes(4, "little") for i in expected)
    a, b = statistics.median(theirs), statistics.median(ours)
    print(f"{path.stem}, {tokenizer.get_vocab_size()} tokens, threads {THREADS}: theirs {size / a / 1e6:.2f} MB/s, "
          f"ours {size / b / 1e6:.2f} MB/s, {a / b:.2f} times as fast (at least {min(x / y for x, y in zip(theirs, ours)):.2f})"
          f"{'' if same else ', and other tokens'}", flush=True)
    return a / b if same else 0


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--program", default="build/release/cleave")
    flags.add_argument("--megabytes", type=float, default=10)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--threads", type=int, help="only so many; default: one, then two")
    flags.add_argument("--vocab", type=int, help="train the tokenizers anew with so many tokens")
    flags.add_argument("--text", help="a directory with text")
    given = flags.parse_args()
    if not given.threads:
        again = [sys.executable, *sys.argv, "--threads"]
        sys.exit(max(subprocess.run([*again, count]).returncode for count in ("1", "2")))
    source = files_below(given.text) if given.text else made_up()
    documents, size = take(source, given.megabytes)
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "text.jsonl").write_text("".join(json.dumps({"text": d}) + "\n" for d in documents))
        corpus = take(source, 5)[0] if given.vocab else []
        ratios = []
        for path in sorted(golden.FOLDER.glob("*.json")):
            if given.vocab:
                (place / path.name).write_text(trained(path, corpus, given.vocab))
                path = place / path.name
            ratios.append(compare(given, path, documents, size, place))
    sys.exit(0 if min(ratios) >= 1 else 1)


if __name__ == "__main__":
    main()
