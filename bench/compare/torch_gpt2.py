"""GPT-2 in plain PyTorch, as a worker: one training step per line on stdin, its seconds on stdout.

torch_step.py starts it. It gives PyTorch what PyTorch has: fused attention and fused AdamW where the
version offers them, otherwise what a user would write.
"""
import argparse
import inspect
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HIDDEN, HEADS, VOCAB, CONTEXT = 12, 768, 12, 50257, 1024  # gpt2-124m


def attend(q, k, v):
    """Causal attention; q, k, v [sequences, heads, tokens, head]."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    tokens = q.shape[-2]
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.attn_out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        sequences, tokens, _ = x.shape
        heads = self.qkv(self.ln_1(x)).view(sequences, tokens, 3, HEADS, HIDDEN // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = attend(q, k, v).transpose(1, 2).reshape(sequences, tokens, HIDDEN)
        x = x + self.attn_out(mixed)
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(CONTEXT, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN)

    def forward(self, x, y):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        logits = self.ln_f(h) @ self.wte.weight.T
        return F.cross_entropy(logits.view(-1, VOCAB), y.view(-1))


def adamw(model):
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    offered = "fused" in inspect.signature(torch.optim.AdamW).parameters and version >= (2, 4)
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), **({"fused": True} if offered else {}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=("f32", "bf16", "bf16-pure"), required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--microbatch", type=int, required=True)
    parser.add_argument("--sequence", type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(1)
    model = Gpt2()
    if flags.dtype == "bf16-pure":
        model = model.bfloat16()
    optimizer = adamw(model)
    forward = torch.compile(model) if flags.compile else model
    x, y = torch.randint(VOCAB, (2, flags.microbatch, flags.sequence))

    def step():
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=flags.dtype == "bf16"):
            loss = forward(x, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        return time.perf_counter() - start

    step()  # allocates, creates primitives and compiles
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        print(step(), flush=True)


if __name__ == "__main__":
    main()
