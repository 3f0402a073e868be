#!/usr/bin/env python3
"""Predicted against measured steps and rounds of owners over a slow link, with every codec of the cuts and of updates.

    bench/edge_rates.py [--cleave build/release/cleave] [--mbit 8] [--latency 40] [--codecs none,int8,int4] [--clients 2] [--only split|rounds]

Two network namespaces of this machine (slow_network.py), the server in one, clients in the other: they share the link. `split` is a step
of split training, `rounds` a round of averaging, from one outcome to the next. Needs the right to make namespaces, and removes them
at its end. On an otherwise idle machine. Exits 1 if a prediction is off by more than 10 %.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from slow_network import SlowNetwork

CONFIG = """
[model]
layers = 4
hidden = {hidden}
heads = 4
vocab = 256
context = 64
[train]
batch = 4
microbatch = 1
sequence = 64
warmup = 0
steps = {steps}
out = "{directory}/out"
[edge]
codec = "{codec}"
{keys}
"""
OWNER = '[[edge.owner]]\nname = "clinic-{0}"\ndata = "{1}/data.txt"\n{2}\n'
WAYS = {
    "split": {"keys": "", "owner": "layers = [1, 1]", "server": '[[edge.owner]]\nname = "hub"\nrole = "server"\n', "steps": 6, "hidden": 128},
    "rounds": {"keys": "sync_every = 4", "owner": "", "server": "", "steps": 6, "hidden": 64},
}
PATIENCE = 300  # seconds


def config_of(way, codec, clients, directory):
    how = WAYS[way]
    owners = "".join(OWNER.format(i, directory, how["owner"]) for i in range(clients))
    return CONFIG.format(codec=codec, directory=directory, keys=how["keys"], steps=how["steps"], hidden=how["hidden"]) + owners + how["server"]


def start(command, environment):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def report_of(cleave, directory, network, clients):
    """Of a run whose clients all join."""
    home = {**os.environ, "XDG_STATE_HOME": f"{directory}/state", "XDG_CACHE_HOME": f"{directory}/cache"}
    state = ["--state", f"{directory}/server"]
    server = start([*network.prefix(0), cleave, "serve", f"{directory}/run.toml", "--json", "--listen", f"{network.address(0)}:4242",
                    *state], home)
    joined = []
    try:
        said = ""
        while not (found := re.search(r"listening on ([\d.:]+\d)", said)):
            line = server.stderr.readline()
            said += line
            if not line:
                raise SystemExit(f"cleave serve ended with code {server.wait()}:\n{said}")
        for client in range(clients):
            invitation = subprocess.run([cleave, "serve", "invite", *state], check=True, capture_output=True, text=True,
                                        env=home).stdout.split()[0]
            joined.append(start([*network.prefix(1), cleave, "join", found[1], "--owner", f"clinic-{client}", "--data",
                                 f"{directory}/data.txt", "--keys", f"{directory}/keys-{client}", "--out", f"{directory}/own-{client}",
                                 "--invitation", invitation], home))
        out, said = server.communicate(timeout=PATIENCE)
        if server.returncode != 0:
            raise SystemExit(f"cleave serve ended with code {server.returncode}:\n{said}")
        for process in joined:
            process.communicate(timeout=PATIENCE)
        return json.loads(out)
    finally:
        for process in [server, *joined]:
            if process.poll() is None:
                process.kill()
                process.wait()


def measure(cleave, way, codec, options):
    """Predicted and measured seconds."""
    with tempfile.TemporaryDirectory() as directory, SlowNetwork(options.mbit, 1e-3 * options.latency) as network:
        pathlib.Path(directory, "run.toml").write_text(config_of(way, codec, options.clients, directory))
        pathlib.Path(directory, "data.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 500)
        report = report_of(cleave, directory, network, options.clients)
    if way == "split":
        return report["predicted_step_seconds"], report["step_seconds"]
    return report["rounds"]["predicted_seconds"], report["rounds"]["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--mbit", type=float, default=8)
    parser.add_argument("--latency", type=float, default=40, help="ms that a packet takes one way")
    parser.add_argument("--codecs", default="none,int8,int4", help="separated by commas")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--only", choices=sorted(WAYS))
    options = parser.parse_args()
    cleave = str(pathlib.Path(options.cleave).resolve())
    if not os.access(cleave, os.X_OK):
        raise SystemExit(f"there is no {cleave}; build it: cmake --build build/release --target cleave")
    print(f"{options.mbit:g} Mbit/s, {options.latency:g} ms one way, {options.clients} clients\n\n"
          "| | codec | predicted | measured | predicted / measured |\n| --- | --- | --- | --- | --- |")
    missed = False
    for way in [options.only] if options.only else list(WAYS):
        for codec in options.codecs.split(","):
            predicted, measured = measure(cleave, way, codec, options)
            missed = missed or abs(predicted / measured - 1) > 0.1
            print(f"| {way} | {codec} | {predicted:.3f} s | {measured:.3f} s | {predicted / measured:.3f} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
