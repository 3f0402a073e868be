#!/usr/bin/env python3
"""Predicted against measured steps of a served pipeline over links of 10 Mbit/s to 1 Gbit/s.

    bench/wire_rates.py [--cleave build/release/cleave] [--rates 10,100,1000] [--steps N]

Two network namespaces of this machine, joined by a pair of virtual devices whose rate a token bucket (tc's tbf) limits; the
server is in one, a device in the other. Needs the right to make namespaces, and removes them at its end. Exits 1 if a
measured step is off by more than 10 %.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CONFIG = """
[model]
layers = 4
hidden = 256
heads = 4
vocab = 256
context = 64
[data]
path = "{0}/data.txt"
[train]
batch = 8
microbatch = 1
sequence = 64
warmup = 0
out = "{0}/out"
[parallel]
pipeline = 2
"""
SPACES = {"cleave-a": ("cleave-va", "10.199.7.1"), "cleave-b": ("cleave-vb", "10.199.7.2")}


def sh(command):
    subprocess.run(command.split(), check=True, capture_output=True, text=True)


def set_up():
    for space in SPACES:
        sh(f"ip netns add {space}")
    (a, _), (b, _) = SPACES.values()
    sh(f"ip link add {a} type veth peer name {b}")
    for space, (link, address) in SPACES.items():
        sh(f"ip link set {link} netns {space}")
        sh(f"ip -n {space} addr add {address}/24 dev {link}")
        sh(f"ip -n {space} link set {link} up")
        sh(f"ip -n {space} link set lo up")


def limit(mbit):
    for space, (link, _) in SPACES.items():
        # A bucket of 2 ms, or of a few packets: larger ones hide the rate from short messages.
        burst = max(4000, int(mbit * 1e6 / 8 * 0.002))
        sh(f"ip netns exec {space} tc qdisc replace dev {link} root tbf rate {mbit}mbit burst {burst} latency 400ms")


def tear_down():
    for space in SPACES:
        subprocess.run(["ip", "netns", "del", space], capture_output=True)


def run(cleave, directory, steps):
    home = {**os.environ, "XDG_STATE_HOME": f"{directory}/state", "XDG_CACHE_HOME": f"{directory}/cache"}
    keys = ["--state", f"{directory}/server"]
    invitation = subprocess.run([cleave, "serve", "invite", *keys], check=True, capture_output=True, text=True,
                                env=home).stdout.split()[0]
    (server_space, (_, address)), (device_space, _) = SPACES.items()
    command = ["ip", "netns", "exec", server_space, cleave, "serve", f"{directory}/run.toml", "--json", "--overwrite",
               "--listen", f"{address}:4242", *keys, "--set", f"train.steps={steps}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=home)
    while "listening on" not in (line := server.stderr.readline()):
        if not line:
            raise SystemExit(server.stderr.read())
    device = subprocess.Popen(["ip", "netns", "exec", device_space, cleave, "join", f"{address}:4242", "--invitation",
                               invitation, "--keys", f"{directory}/keys"], env=home, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    report, said = server.communicate()
    device.wait()
    if server.returncode != 0:
        raise SystemExit(said)
    return json.loads(report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default="build/release/cleave")
    parser.add_argument("--rates", default="10,100,1000", help="Mbit/s, separated by commas")
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    cleave = str(pathlib.Path(arguments.cleave).resolve())

    missed = False
    print("| Mbit/s | predicted | measured | predicted / measured |\n| --- | --- | --- | --- |")
    tear_down()
    try:
        set_up()
        for rate in map(int, arguments.rates.split(",")):
            limit(rate)
            with tempfile.TemporaryDirectory() as directory:
                pathlib.Path(directory, "run.toml").write_text(CONFIG.format(directory))
                pathlib.Path(directory, "data.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 500)
                report = run(cleave, directory, arguments.steps)
            predicted, measured = report["predicted_step_seconds"], report["step_seconds"]
            missed = missed or abs(predicted / measured - 1) > 0.1
            print(f"| {rate} | {predicted * 1e3:.1f} ms | {measured * 1e3:.1f} ms | {predicted / measured:.3f} |", flush=True)
    finally:
        tear_down()
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
