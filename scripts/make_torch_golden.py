#!/usr/bin/env python3
"""Writes tests/golden/torch_losses.txt: ten AdamW steps of a tiny GPT-2 and a tiny Llama in PyTorch;
and tests/golden/torch_optimizers.txt: ten steps of other optimizers and learning rates.

Run it with any PyTorch; the file names the version it was made with. The tests need only the file.
Weights and tokens come from integer formulas that tests/train/torch_golden_test.cpp repeats exactly.
"""
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

LAYERS, HIDDEN, HEADS, FFN, VOCAB, SEQUENCE, SEQUENCES = 2, 32, 4, 96, 61, 24, 4
KV_HEADS = {"gpt": 4, "llama": 2}
STEPS, LR, MIN_LR, WARMUP, BETAS, DECAY, CLIP = 10, 1e-2, 1e-3, 2, (0.9, 0.95), 0.1, 1.0
MOMENTUM, LAST_STEPS = 0.9, 4


def shapes(kind):
    h, kv = HIDDEN, HIDDEN // HEADS * KV_HEADS[kind]
    if kind == "gpt":
        out = {"transformer.wte.weight": (VOCAB, h), "transformer.wpe.weight": (SEQUENCE, h)}
        for i in range(LAYERS):
            p = f"transformer.h.{i}."
            out |= {p + "ln_1.weight": (h,), p + "ln_1.bias": (h,), p + "ln_2.weight": (h,), p + "ln_2.bias": (h,),
                    p + "attn.c_attn.weight": (h, 3 * h), p + "attn.c_attn.bias": (3 * h,),
                    p + "attn.c_proj.weight": (h, h), p + "attn.c_proj.bias": (h,),
                    p + "mlp.c_fc.weight": (h, FFN), p + "mlp.c_fc.bias": (FFN,),
                    p + "mlp.c_proj.weight": (FFN, h), p + "mlp.c_proj.bias": (h,)}
        return out | {"transformer.ln_f.weight": (h,), "transformer.ln_f.bias": (h,)}
    out = {"model.embed_tokens.weight": (VOCAB, h), "lm_head.weight": (VOCAB, h), "model.norm.weight": (h,)}
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        out |= {p + "input_layernorm.weight": (h,), p + "post_attention_layernorm.weight": (h,),
                p + "self_attn.q_proj.weight": (h, h), p + "self_attn.k_proj.weight": (kv, h),
                p + "self_attn.v_proj.weight": (kv, h), p + "self_attn.o_proj.weight": (h, h),
                p + "mlp.gate_proj.weight": (FFN, h), p + "mlp.up_proj.weight": (FFN, h),
                p + "mlp.down_proj.weight": (h, FFN)}
    return out


def initial(kind):
    """Tensor k (by name), element i: ((1664525 i + 1013904223 (k + 1)) mod 2^24) / 2^24 - 1/2, over 4; norms + 1."""
    weights = {}
    for k, (name, shape) in enumerate(sorted(shapes(kind).items())):
        i = np.arange(np.prod(shape), dtype=np.uint64)
        u = (i * np.uint64(1664525) + np.uint64(1013904223) * np.uint64(k + 1)) % np.uint64(1 << 24)
        w = (u.astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)) / np.float32(4)
        if len(shape) == 1 and name.endswith(".weight"):
            w = w + np.float32(1)
        weights[name] = torch.nn.Parameter(torch.from_numpy(w.reshape(shape)))
    return weights


def tokens(step):
    """Position p of sequence b: ((p + 7 b + 13 step)^2 + 5 p) mod vocabulary; the target is position p + 1's."""
    p = np.arange(SEQUENCE + 1)
    rows = [(((p + 7 * b + 13 * step) ** 2 + 5 * p) % VOCAB) for b in range(SEQUENCES)]
    ids = torch.from_numpy(np.stack(rows)).long()
    return ids[:, :-1], ids[:, 1:]


def heads_of(x, count):
    return x.view(SEQUENCES, SEQUENCE, count, HIDDEN // HEADS).transpose(1, 2)


def attend(q, k, v):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool).tril()
    out = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
    return out.transpose(1, 2).reshape(SEQUENCES, SEQUENCE, HIDDEN)


def rotate(x):
    d = x.shape[-1]
    angles = torch.arange(SEQUENCE).double()[:, None] * 10000.0 ** (-torch.arange(0, d, 2).double() / d)[None]
    cos, sin = (torch.cat([f(angles)] * 2, -1).to(x.dtype) for f in (torch.cos, torch.sin))
    half = torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1)
    return x * cos + half * sin


def rms(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w


def gpt(w, x):
    h = w["transformer.wte.weight"][x] + w["transformer.wpe.weight"][None]
    for i in range(LAYERS):
        p = f"transformer.h.{i}."
        n = F.layer_norm(h, (HIDDEN,), w[p + "ln_1.weight"], w[p + "ln_1.bias"])
        q, k, v = (n @ w[p + "attn.c_attn.weight"] + w[p + "attn.c_attn.bias"]).split(HIDDEN, -1)
        a = attend(heads_of(q, HEADS), heads_of(k, HEADS), heads_of(v, HEADS))
        h = h + a @ w[p + "attn.c_proj.weight"] + w[p + "attn.c_proj.bias"]
        n = F.layer_norm(h, (HIDDEN,), w[p + "ln_2.weight"], w[p + "ln_2.bias"])
        f = F.gelu(n @ w[p + "mlp.c_fc.weight"] + w[p + "mlp.c_fc.bias"], approximate="tanh")
        h = h + f @ w[p + "mlp.c_proj.weight"] + w[p + "mlp.c_proj.bias"]
    h = F.layer_norm(h, (HIDDEN,), w["transformer.ln_f.weight"], w["transformer.ln_f.bias"])
    return h @ w["transformer.wte.weight"].T


def llama(w, x):
    h = w["model.embed_tokens.weight"][x]
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        n = rms(h, w[p + "input_layernorm.weight"])
        q = rotate(heads_of(n @ w[p + "self_attn.q_proj.weight"].T, HEADS))
        k = rotate(heads_of(n @ w[p + "self_attn.k_proj.weight"].T, KV_HEADS["llama"]))
        v = heads_of(n @ w[p + "self_attn.v_proj.weight"].T, KV_HEADS["llama"])
        h = h + attend(q, k, v) @ w[p + "self_attn.o_proj.weight"].T
        n = rms(h, w[p + "post_attention_layernorm.weight"])
        f = F.silu(n @ w[p + "mlp.gate_proj.weight"].T) * (n @ w[p + "mlp.up_proj.weight"].T)
        h = h + f @ w[p + "mlp.down_proj.weight"].T
    return rms(h, w["model.norm.weight"]) @ w["lm_head.weight"].T


# The height between MIN_LR and LR, from how many of the steps after warmup are done.
CURVES = {"cosine": lambda done, of: 0.5 * (1 + math.cos(math.pi * done / of)),
          "linear": lambda done, of: 1 - done / of,
          "constant": lambda done, of: 1.0,
          "wsd": lambda done, of: min(1.0, (of - done) / LAST_STEPS)}


def rate(step, curve):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    of = max(STEPS - WARMUP, 1)
    return MIN_LR + (LR - MIN_LR) * CURVES[curve](min(step - WARMUP + 1, of), of)


class Lion(torch.optim.Optimizer):
    """As Chen et al. (2023) write it; PyTorch has none."""

    def __init__(self, groups, lr, betas):
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * (beta1 * m + (1 - beta1) * p.grad).sign())
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def muon(hidden):
    """PyTorch's, whose iteration would run in bf16, kept in f32."""
    optimizer = torch.optim.Muon(hidden, lr=LR, weight_decay=DECAY, momentum=MOMENTUM, nesterov=True,
                                 adjust_lr_fn="match_rms_adamw")
    step = optimizer.step

    def exact_step():
        original = torch.Tensor.bfloat16
        torch.Tensor.bfloat16 = lambda self: self.clone()
        step()
        torch.Tensor.bfloat16 = original

    optimizer.step = exact_step
    return optimizer


def optimizers_of(name, master):
    """Decay is on matrices only. Muon has the matrices of the blocks, AdamW what is left."""
    def groups(parameters):
        return [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": DECAY},
                {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]

    if name == "adamw":
        return [torch.optim.AdamW(groups(master.values()), lr=LR, betas=BETAS, eps=1e-8)]
    if name == "sgd":
        return [torch.optim.SGD(groups(master.values()), lr=LR, momentum=MOMENTUM)]
    if name == "lion":
        return [Lion(groups(master.values()), lr=LR, betas=BETAS)]
    hidden = [p for n, p in master.items() if p.dim() > 1 and (".h." in n or ".layers." in n)]
    rest = [p for p in master.values() if all(p is not h for h in hidden)]
    return [muon(hidden), torch.optim.AdamW(groups(rest), lr=LR, betas=BETAS, eps=1e-8)]


def losses(kind, dtype, optimizer="adamw", curve="cosine"):
    """f32, or bf16 copies of f32 master weights."""
    master = initial(kind)
    optimizers = optimizers_of(optimizer, master)
    out = []
    for step in range(STEPS):
        for group in (group for o in optimizers for group in o.param_groups):
            group["lr"] = rate(step, curve)
        x, y = tokens(step)
        weights = {name: p.to(dtype) for name, p in master.items()}
        logits = (gpt if kind == "gpt" else llama)(weights, x).float()
        loss = F.cross_entropy(logits.view(-1, VOCAB), y.reshape(-1))
        for p in master.values():
            p.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(master.values()), CLIP)
        for o in optimizers:
            o.step()
        out.append(loss.item())
    return out


def main():
    torch.manual_seed(0)
    golden = pathlib.Path(__file__).parent.parent / "tests/golden"
    with (golden / "torch_losses.txt").open("w") as file:
        file.write(f"# Losses of ten steps, made by scripts/make_torch_golden.py with PyTorch {torch.__version__}\n")
        for kind in ("gpt", "llama"):
            for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
                file.write(" ".join([kind, name] + [f"{loss:.9g}" for loss in losses(kind, dtype)]) + "\n")
    with (golden / "torch_optimizers.txt").open("w") as file:
        file.write(f"# f32 losses of ten steps, made by scripts/make_torch_golden.py with PyTorch {torch.__version__}\n")
        for kind in ("gpt", "llama"):
            for optimizer, curve in (("adamw", "linear"), ("sgd", "constant"), ("lion", "wsd"), ("muon", "linear")):
                row = losses(kind, torch.float32, optimizer, curve)
                file.write(" ".join([kind, optimizer, curve] + [f"{loss:.9g}" for loss in row]) + "\n")


if __name__ == "__main__":
    main()
