#!/usr/bin/env python3
"""How long does a checkpoint of a billion parameters take to come in and to go out? Makes a random Llama directory in bf16
with shards (1.1 billion parameters unless told otherwise), plans it for eight devices, gives each the planned bytes as its
budget, and trains one step on eight processes. Beside it, in the same run: a cold read of the files and the first touch
of the planned bytes; then an export, beside a cold read and a write of as many bytes.

    bench/big_checkpoint.py --program build/release/cleave --place /var/tmp/big

Files are taken out of the page cache one by one before each cold read; nobody else's are. `--train all` trains all of it,
which takes 14 bytes per parameter with sgd; without it adapters of rank 4 are trained beside frozen weights.
"""
import argparse
import json
import math
import mmap
import os
import pathlib
import random
import shutil
import struct
import subprocess
import threading
import time

SHARD_BYTES = 500_000_000
LLAMA = dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
             num_key_value_heads=4, vocab_size=32000)
SLACK = 64 << 20


def shapes(c):
    """Names and shapes of a Llama's tensors, in the order of its layers."""
    wide, kv = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"] * c["num_key_value_heads"]
    yield "model.embed_tokens.weight", (c["vocab_size"], wide)
    for i in range(c["num_hidden_layers"]):
        block = f"model.layers.{i}."
        for name, shape in (("self_attn.q_proj", (wide, wide)), ("self_attn.k_proj", (kv, wide)),
                            ("self_attn.v_proj", (kv, wide)), ("self_attn.o_proj", (wide, wide)),
                            ("mlp.gate_proj", (c["intermediate_size"], wide)),
                            ("mlp.up_proj", (c["intermediate_size"], wide)),
                            ("mlp.down_proj", (wide, c["intermediate_size"])),
                            ("input_layernorm", (wide,)), ("post_attention_layernorm", (wide,))):
            yield f"{block}{name}.weight", shape
    yield "model.norm.weight", (wide,)
    yield "lm_head.weight", (c["vocab_size"], wide)


def random_values(size, draw):
    """Bytes of bf16 with any sign and mantissa and one exponent: values of 1/64 to 1/32."""
    bits = int.from_bytes(draw.randbytes(size), "little")
    every = lambda half: int.from_bytes(half.to_bytes(2, "little") * (size // 2), "little")
    return (bits & every(0x807F) | every(0x3C80)).to_bytes(size, "little")


def write_shard(path, tensors, draw):
    header, at = {}, 0
    for name, shape in tensors:
        count = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at > 0:
            file.write(random_values(min(at, 1 << 20), draw))
            at -= 1 << 20
        file.flush()
        os.fsync(file.fileno())


def make_checkpoint(directory, layers):
    config = dict(LLAMA, num_hidden_layers=layers, model_type="llama", architectures=["LlamaForCausalLM"],
                  max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu",
                  tie_word_embeddings=False, torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2)
    shards, size = [[]], 0
    for name, shape in shapes(config):
        count = 2 * math.prod(shape)
        if shards[-1] and size + count > SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append((name, shape))
        size += count
    directory.mkdir(parents=True)
    draw, index = random.Random(1), {}
    for i, tensors in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_shard(directory / name, tensors, draw)
        index.update({tensor: name for tensor, _ in tensors})
    total = sum(2 * math.prod(shape) for shard in shards for _, shape in shard)
    (directory / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": index}))
    (directory / "config.json").write_text(json.dumps(config, indent=2))


def forget(directory):
    """Takes the files of a directory out of the page cache."""
    for path in directory.glob("*.safetensors"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds_of(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start


def read_cold(directory):
    forget(directory)
    buffer = bytearray(1 << 20)

    def read():
        for path in sorted(directory.glob("*.safetensors")):
            with open(path, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    return seconds_of(read)


def first_touch(counts):
    def touch():
        for count in counts:
            with mmap.mmap(-1, count) as memory:
                for page in range(0, count, 1 << 20):
                    memory[page:page + (1 << 20)] = b"\1" * min(1 << 20, count - page)

    return seconds_of(touch)


def write_cold(path, count):
    def write():
        with open(path, "wb", buffering=0) as file:
            block = b"\1" * (1 << 20)
            for _ in range(count >> 20):
                file.write(block)
            os.fsync(file.fileno())

    taken = seconds_of(write)
    os.unlink(path)
    return taken


def children_of(pid):
    try:
        own = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return own + [deeper for child in own for deeper in children_of(child)]


def rank_of(pid):
    """Of a process that mpirun started; 0 for others."""
    for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
            return int(entry.split(b"=")[1])
    return 0


def watched(command, program):
    """Runs a command. (what it printed, when it said that it had read its weights, when it ended, the most bytes that each process of
    `program` held, by rank and without pages of files)"""
    peaks, said, start = {}, [], time.monotonic()
    running = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed = []
    readers = [threading.Thread(target=lambda: printed.append(running.stdout.read())),
               threading.Thread(target=lambda: said.extend((time.monotonic(), line) for line in running.stderr))]
    for reader in readers:
        reader.start()
    while running.poll() is None:
        for pid in [str(running.pid)] + children_of(running.pid):
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                name, rank = os.readlink(f"/proc/{pid}/exe"), rank_of(pid)
            except OSError:
                continue
            held = sum(int(line.split()[1]) for line in status.splitlines()
                       if line.startswith(("RssAnon", "RssShmem")))
            if name == str(program):
                peaks[rank] = max(peaks.get(rank, 0), held * 1024)
        time.sleep(0.05)
    for reader in readers:
        reader.join()
    if running.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {running.returncode}\n{''.join(l for _, l in said)[-2000:]}")
    ready = next((at - start for at, line in said if line.startswith("read ")), None)
    return printed[0], ready, time.monotonic() - start, peaks


def answer(command, **options):
    made = subprocess.run(command, capture_output=True, text=True, **options)
    if made.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {made.returncode}\n{made.stderr[-2000:]}")
    return json.loads(made.stdout)


def write_run(place, given, budgets):
    source = "[lora]\nrank = 4\nalpha = 8.0\n" if given.train == "adapters" else ""
    memory = f"memory = {json.dumps([f'{b} B' for b in budgets])}\n" if budgets else ""
    (place / "run.toml").write_text(
        f'[model]\nfrom = "{place / "in"}"\n{source}'
        f'[data]\npath = "{place / "tokens.u16.bin"}"\n'
        f'[train]\ndtype = "bf16"\noptimizer = "sgd"\nmomentum = 0.0\nsteps = 1\nbatch = 8\nmicrobatch = 1\nsequence = 16\n'
        f'eval_every = 0\nlr = 1e-4\nwarmup = 0\nout = "{place / "out"}"\n'
        f"[parallel]\npipeline = {given.devices}\n[devices]\n{memory}")


def measure_load(given):
    place, program = given.place, pathlib.Path(given.program).resolve()
    shutil.rmtree(place / "out", ignore_errors=True)
    write_run(place, given, [])
    planned = answer([program, "plan", place / "run.toml", "--json"])["planned_bytes"]
    write_run(place, given, planned)
    cold, touch = read_cold(place / "in"), first_touch(planned)
    forget(place / "in")
    command = [program, "train", place / "run.toml", "--json"]
    if given.processes == "mpi":
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", given.devices] + command
    printed, ready, taken, peaks = watched(command, program)
    load = json.loads(printed)["load_seconds"]
    gib = sum(planned) / 2**30
    print(f"planned {gib:.2f} GiB on {given.devices} devices; cold read {cold:.2f} s, first touch {touch:.2f} s")
    print(f"loading took {load:.2f} s, {load / (cold + touch):.2f} of both (at most 2), and was done {ready:.2f} s after the start, in "
          f"which the passes are measured too; the whole run, saving included, {taken:.1f} s")
    if given.processes == "mpi":
        over = max(peaks[rank] - share for rank, share in enumerate(planned))
        print(f"a process holds at most {over / 2**20:.0f} MiB above its planned bytes (at most {SLACK >> 20})")


def measure_export(given):
    place, program = given.place, pathlib.Path(given.program).resolve()
    shutil.rmtree(place / "exported", ignore_errors=True)
    count = sum(path.stat().st_size for path in (place / "in").glob("*.safetensors"))
    cold, write = read_cold(place / "in"), write_cold(place / "written", count)
    forget(place / "in")
    _, _, taken, peaks = watched([program, "export", place / "in", place / "exported", "--dtype", "bf16",
                               "--shard-size", "500MB"], program)
    print(f"exported in {taken:.2f} s, {taken / (cold + write):.2f} of a cold read ({cold:.2f} s) and a write "
          f"({write:.2f} s) (at most 2); {max(peaks.values()) / 2**20:.0f} MiB held")
    shutil.rmtree(place / "exported")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--program", default="build/release/cleave")
    flags.add_argument("--place", type=pathlib.Path, required=True, help="a directory on a real disk")
    flags.add_argument("--layers", type=int, default=22, help="22 are 1.1 billion parameters")
    flags.add_argument("--devices", type=int, default=8)
    flags.add_argument("--processes", choices=["mpi", "threads"], default="mpi")
    flags.add_argument("--train", choices=["adapters", "all"], default="adapters")
    given = flags.parse_args()
    place = given.place
    if not (place / "in").exists():
        make_checkpoint(place / "in", given.layers)
        draw = random.Random(2)
        (place / "tokens.u16.bin").write_bytes(struct.pack("<4096H", *(draw.randrange(32000) for _ in range(4096))))
    measure_load(given)
    measure_export(given)


if __name__ == "__main__":
    main()
