#!/usr/bin/env python3
"""What a server of federated rounds takes in memory, with clients that draw updates instead of training.

    cmake --build build/release --target aggregate_bench
    bench/aggregate_memory.py [--megabytes 3350] [--clients 6] [--rounds 1] [--outer mean] [--place DIR]

A GPT of about --megabytes of f32 weights; clients send as much each, over TLS on loopback, and the server has it on disk below
--place until the round closes: megabytes x clients must be free there. Exits 1 if the server's peak resident memory is above
1.2 x the model x (1 + outer slots) + 256 MiB, or above what it planned + 256 MiB.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

CONFIG = """
[model]
layers = {layers}
hidden = {hidden}
heads = {heads}
vocab = 50257
context = 1024
[train]
batch = 1
microbatch = 1
sequence = 128
out = "{out}"
[edge]
sync_every = 1
outer = "{outer}"
{owners}
"""
OUTER_SLOTS = {"mean": 0, "momentum": 1, "nesterov": 1, "adam": 2, "yogi": 2}


def shape_of(megabytes):
    """Layers and hidden size of a GPT of about so many megabytes, 64 features to a head."""
    wanted = megabytes * 1e6 / 4
    best = None
    for hidden in range(128, 2049, 64):
        left = wanted - (50257 + 1024) * hidden
        layers = max(1, round(left / (12 * hidden * hidden)))
        size = 12 * hidden * hidden * layers + (50257 + 1024) * hidden
        off = abs(size - wanted) / wanted + (0 if 2 <= layers <= 48 else 1)
        if best is None or off < best[0]:
            best = (off, layers, hidden)
    return best[1], best[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bench/aggregate_bench")
    parser.add_argument("--megabytes", type=float, default=3350)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--outer", default="mean", choices=sorted(OUTER_SLOTS))
    parser.add_argument("--place", default="/var/tmp")
    options = parser.parse_args()
    layers, hidden = shape_of(options.megabytes)
    owners = "".join(f'[[edge.owner]]\nname = "client-{i}"\ndata = "none-{i}"\n' for i in range(options.clients))
    with tempfile.TemporaryDirectory(dir=options.place) as place:
        config = pathlib.Path(place) / "run.toml"
        config.write_text(CONFIG.format(layers=layers, hidden=hidden, heads=hidden // 64, out=place + "/out",
                                        outer=options.outer, owners=owners))
        done = subprocess.run([options.program, config, str(options.clients), str(options.rounds)], stdout=subprocess.PIPE,
                              text=True, check=True)
    answer = json.loads(done.stdout)
    model, resident, planned = answer["model_bytes"], answer["resident_bytes"], answer["planned_bytes"]
    limit = min(1.2 * model * (1 + OUTER_SLOTS[options.outer]), planned) + (256 << 20)
    print(f"{layers} layers of {hidden}: model {model / 1e6:.1f} MB, planned {planned / 1e6:.1f} MB, resident "
          f"{resident / 1e6:.1f} MB of at most {limit / 1e6:.1f} MB, {options.clients} clients, "
          f"{answer['round_seconds']:.1f} s a round: {'holds' if resident <= limit else 'TOO MUCH'}")
    return 0 if resident <= limit else 1


if __name__ == "__main__":
    sys.exit(main())
