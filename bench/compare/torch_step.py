#!/usr/bin/env python3
"""How much faster is a training step of cleave than PyTorch's? GPT-2 124M, one device, random tokens.

Both sides run the same model and batch with clipping and AdamW. They take turns, so that a machine
that slows down slows both; the ratio is that of the medians.

    bench/compare/torch_step.py                            # python3's own PyTorch
    bench/compare/torch_step.py --python venv/bin/python --compile --threads 2 --dtype bf16

bf16 is autocast in PyTorch, which keeps f32 weights as cleave does; bf16-pure keeps bf16 weights only.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Torch:
    """A PyTorch process that is warmed up and waits for the word to do one step."""

    def __init__(self, flags, dtype, threads):
        command = [flags.python, str(HERE / "torch_gpt2.py"), "--dtype", dtype,
                   "--threads", str(threads), "--microbatch", str(flags.microbatch),
                   "--sequence", str(flags.sequence)] + ["--compile"] * flags.compile
        # PyTorch tells OpenMP how many threads to use; an OpenBLAS with threads of its own reads this.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.version = self.process.stdout.readline().strip()
        if not self.version:
            sys.exit(f"torch_step: {flags.python} cannot run this step in PyTorch; see above")

    def step_seconds(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def cleave_step_seconds(flags, dtype, threads):
    command = [flags.cleave, "bench", "step", "--preset", "gpt2-124m", "--dtype", dtype.split("-")[0],
               "--microbatch", str(flags.microbatch), "--sequence", str(flags.sequence),
               "--threads", str(threads), "--repeats", "1", "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["step_seconds"]


def compare(flags, dtype, threads):
    torch = Torch(flags, dtype, threads)
    theirs, ours = [], []
    for _ in range(flags.rounds):
        theirs.append(torch.step_seconds())
        ours.append(cleave_step_seconds(flags, dtype, threads))
    torch.close()
    t, c = statistics.median(theirs), statistics.median(ours)
    how = "compiled" if flags.compile else "eager"
    print(f"{torch.version:14} {how:9} {dtype:9} {threads:7} {t:10.3f} {c:11.3f} {t / c:6.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3", help="interpreter that has PyTorch")
    parser.add_argument("--cleave", default=str(HERE.parent.parent / "build/release/cleave"))
    parser.add_argument("--dtype", nargs="+", default=["f32", "bf16"], choices=("f32", "bf16", "bf16-pure"))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--microbatch", type=int, default=4, help="sequences of the step")
    parser.add_argument("--sequence", type=int, default=256, help="tokens of a sequence")
    parser.add_argument("--rounds", type=int, default=5, help="turns each side takes")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model (PyTorch 2)")
    flags = parser.parse_args()
    if subprocess.run([flags.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"torch_step: {flags.python} has no PyTorch; name another with --python")
    print(f"{'PyTorch':14} {'mode':9} {'dtype':9} {'threads':>7} {'PyTorch s':>10} {'cleave s':>11} {'ratio':>6}")
    for dtype in flags.dtype:
        for threads in flags.threads:
            compare(flags, dtype, threads)


if __name__ == "__main__":
    main()
