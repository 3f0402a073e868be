#!/usr/bin/env python3
"""What numerics.exact = true costs: steps of GPT-2 124M with it and without, in turns.

    bench/exact_price.py [--cleave build/release/cleave] [--pairs 48] [--dtype f32] [--preset gpt2-124m] [--sequence 128]
                         [--seconds 150] [--kept FILE]

Two runs live side by side, and only one of them at a time may go on (SIGSTOP, SIGCONT): a step of the one, a step of the other,
and the next pair the other way round. A step is the time from the moment that a run may go on until its next line is in
log.jsonl, before which it is stopped again. Printed: the median of the pairs' ratios, exact to not exact, and an interval that has
the true median with at least 95 % (order statistics), and what each run says about its bits: where both say the same they use the
same kernels, and the ratio shows how far the machine can be trusted. It ends after --seconds, with fewer pairs if need be; with --kept
the pairs are appended to a file, and what earlier calls left there counts. Exits 1 if the median is above 1.02, and 2 if there are
fewer than 40 pairs. Run it on a quiet machine; memory for two runs is needed, 4.2 GB for the default.
"""

import argparse
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT = 1.02
ENOUGH = 40  # pairs


class Run:
    """A training that goes one step at a time."""

    def __init__(self, args, directory, exact):
        out = pathlib.Path(directory, f"exact-{exact}")
        self.log = out / "log.jsonl"
        self.said = pathlib.Path(directory, f"said-{exact}")
        config = pathlib.Path(directory, f"{exact}.toml")
        config.write_text("")
        keys = (f"model.preset={args.preset} train.dtype={args.dtype} train.sequence={args.sequence} train.batch=1 "
                f"train.microbatch=1 train.steps=100000 train.warmup=1 train.checkpoint_every=0 data.validation=0 "
                f"data.tokenizer=bytes data.path={directory}/data.txt train.out={out} numerics.exact={exact}").split()
        words = [args.cleave, "train", str(config)]
        for key in keys:
            words += ["--set", key]
        self.process = subprocess.Popen(words, stdout=self.said.open("w"), stderr=subprocess.STDOUT)
        self.seen = 0

    def lines(self):
        return self.log.read_bytes().count(b'{"step":') if self.log.exists() else 0

    def step(self):
        """Lets it go on until one more step is in the log; the seconds that took."""
        start = time.perf_counter()
        os.kill(self.process.pid, signal.SIGCONT)
        while self.lines() <= self.seen:
            if self.process.poll() is not None:
                sys.exit(self.said.read_text())
            if time.perf_counter() - start > 300:
                sys.exit("no step in 300 seconds")
            time.sleep(0.0005)
        seconds = time.perf_counter() - start
        os.kill(self.process.pid, signal.SIGSTOP)
        self.seen = self.lines()
        return seconds

    def bits(self):
        found = re.search(r"^bits (.*)$", self.said.read_text(), re.MULTILINE)
        return found[1] if found else sys.exit("the run does not say which bits it has:\n" + self.said.read_text())

    def end(self):
        self.process.kill()
        self.process.wait()


def interval(values):
    """Two of them, between which the true median lies with at least 95 %."""
    ordered, n = sorted(values), len(values)
    outside, k = 0.0, 0
    while k < n // 2 and outside + math.comb(n, k) / 2 ** n <= 0.025:
        outside += math.comb(n, k) / 2 ** n
        k += 1
    return ordered[max(k - 1, 0)], ordered[n - max(k, 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--pairs", type=int, default=48)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--preset", default="gpt2-124m")
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--kept", type=pathlib.Path, help="a file of pairs that this call and later ones add to")
    args = parser.parse_args()
    end = time.perf_counter() + args.seconds
    pairs = []
    if args.kept and args.kept.exists():
        pairs = [tuple(map(float, line.split())) for line in args.kept.read_text().splitlines()]
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "data.txt").write_text("the quick brown fox jumps over the lazy dog. " * 4000)
        runs = []
        try:
            for exact in ("true", "false"):
                runs.append(Run(args, directory, exact))
                for _ in range(3):  # the first steps touch memory for the first time
                    runs[-1].step()
            while len(pairs) < args.pairs and time.perf_counter() < end:
                order = runs if len(pairs) % 2 == 0 else runs[::-1]
                seconds = {run: run.step() for run in order}
                pairs.append((seconds[runs[0]], seconds[runs[1]]))
                if args.kept:
                    with args.kept.open("a") as kept:
                        print(*pairs[-1], file=kept)
            bits = [run.bits() for run in runs]
        finally:
            for run in runs:
                run.end()
    if not pairs:
        sys.exit(f"no pair of steps in {args.seconds:.0f} seconds")
    ratios = [exact / other for exact, other in pairs]
    low, high = interval(ratios)
    median = statistics.median(ratios)
    print(f"{args.preset} {args.dtype}, {args.sequence} tokens, {len(pairs)} pairs of steps: exact "
          f"{statistics.median(p[0] for p in pairs):.3f} s, not exact {statistics.median(p[1] for p in pairs):.3f} s")
    print(f"ratio {median:.4f}, between {low:.4f} and {high:.4f} with 95 %; wanted: at most {LIMIT}")
    print(f"bits: {bits[0]}" + (", with both: the same kernels" if bits[0] == bits[1] else f"; not exact: {bits[1]}"))
    if len(pairs) < ENOUGH:
        print(f"fewer than {ENOUGH} pairs: give it more --seconds, or --kept and another call")
        sys.exit(2)
    sys.exit(0 if median <= LIMIT else 1)


if __name__ == "__main__":
    main()
