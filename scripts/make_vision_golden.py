#!/usr/bin/env python3
"""Writes tests/golden/vision_losses.txt: ten AdamW steps of small models that read images, by the classes of
transformers where it has them; needs PyTorch and transformers, whose versions the file names. The tests need only the file.

Weights and images come from integer formulas that tests/train/vision_golden_test.cpp repeats exactly.
"""
import math
import pathlib
import re

import numpy as np
import torch
import transformers

LAYERS, HIDDEN, HEADS, FFN, IMAGE, PATCH, CHANNELS, CLASSES, SAMPLES = 2, 32, 4, 96, 12, 4, 3, 7, 6
STEPS, LR, MIN_LR, WARMUP, BETAS, DECAY, CLIP = 10, 1e-2, 1e-3, 2, (0.9, 0.95), 0.1, 1.0


def vit(act):
    config = transformers.ViTConfig(hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                    intermediate_size=FFN, hidden_act=act, hidden_dropout_prob=0.0,
                                    attention_probs_dropout_prob=0.0, image_size=IMAGE, patch_size=PATCH,
                                    num_channels=CHANNELS, num_labels=CLASSES, layer_norm_eps=1e-12)
    return transformers.ViTForImageClassification(config)


class Cnn(torch.nn.Module):
    """Two convolutions by 5 with pooling by 2, three linear layers; on images of 16 x 16."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(CHANNELS, 6, 5), torch.nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(16, 24), torch.nn.Linear(24, 20), torch.nn.Linear(20, CLASSES)

    def forward(self, x):
        f = torch.nn.functional
        x = f.max_pool2d(f.relu(self.conv1(x)), 2)
        x = f.max_pool2d(f.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(f.relu(self.fc2(f.relu(self.fc1(x)))))


class Features(torch.nn.Module):
    """A convolution that keeps the size of the image, a norm over groups of channels, and relu."""

    def __init__(self, before, after):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.GroupNorm(4, after)

    def forward(self, x):
        return torch.nn.functional.relu(self.norm(self.conv(x)))


class Unet(torch.nn.Module):
    """Two levels down and up again, each joined to what was there on the way down; every pixel votes for a class."""

    def __init__(self):
        super().__init__()
        width = (8, 16, 32)
        self.stem = Features(CHANNELS, width[0])
        self.down = torch.nn.ModuleDict({str(i): Features(width[i - 1], width[i]) for i in (1, 2)})
        self.up = torch.nn.ModuleDict({str(i): Features(width[i + 1] + width[i], width[i]) for i in (0, 1)})
        self.head = torch.nn.ModuleDict({"conv": torch.nn.Conv2d(width[0], CLASSES, 1)})

    def forward(self, x):
        f = torch.nn.functional
        levels = [self.stem(x)]
        for i in ("1", "2"):
            levels.append(self.down[i](f.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for i in ("1", "0"):
            x = self.up[i](torch.cat([f.interpolate(x, scale_factor=2, mode="nearest"), levels.pop()], 1))
        return self.head["conv"](x).mean((2, 3))


# What newer versions of transformers call the tensors of a checkpoint, and what they are called there.
RENAMED = [(r"vit\.layers?\.(\d+)\.attention\.(q|k|v)_proj\.", r"vit.encoder.layer.\1.attention.attention.\2."),
           (r"vit\.layers?\.(\d+)\.attention\.o_proj\.", r"vit.encoder.layer.\1.attention.output.dense."),
           (r"vit\.layers?\.(\d+)\.mlp\.fc1\.", r"vit.encoder.layer.\1.intermediate.dense."),
           (r"vit\.layers?\.(\d+)\.mlp\.fc2\.", r"vit.encoder.layer.\1.output.dense."),
           (r"vit\.layers?\.(\d+)\.", r"vit.encoder.layer.\1."),
           (r"attention\.attention\.q\.", "attention.attention.query."),
           (r"attention\.attention\.k\.", "attention.attention.key."),
           (r"attention\.attention\.v\.", "attention.attention.value.")]


def checkpoint_name(name):
    for pattern, becomes in RENAMED:
        name = re.sub(pattern, becomes, name)
    return name


def set_weights(model, name_of=checkpoint_name):
    """Tensor k (by name), element i: ((1664525 i + 1013904223 (k + 1)) mod 2^24) / 2^24 - 1/2, over 4; norms + 1."""
    named = sorted((name_of(name), p) for name, p in model.named_parameters())
    for k, (name, parameter) in enumerate(named):
        i = np.arange(parameter.numel(), dtype=np.uint64)
        u = (i * np.uint64(1664525) + np.uint64(1013904223) * np.uint64(k + 1)) % np.uint64(1 << 24)
        w = (u.astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)) / np.float32(4)
        if parameter.dim() == 1 and name.endswith(".weight"):
            w = w + np.float32(1)
        parameter.data = torch.from_numpy(w.reshape(parameter.shape))
    return dict(named)


def batch(step, side):
    """Value j of image b, channels first: ((j + 17 b + 29 step)^2 mod 251) / 125 - 1; its class: (3 b + step) mod 7."""
    j = np.arange(CHANNELS * side * side, dtype=np.int64)
    rows = [((j + 17 * b + 29 * step) ** 2 % 251).astype(np.float32) / np.float32(125) - np.float32(1)
            for b in range(SAMPLES)]
    pixels = torch.from_numpy(np.stack(rows).reshape(SAMPLES, CHANNELS, side, side))
    return pixels, torch.tensor([(3 * b + step) % CLASSES for b in range(SAMPLES)])


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    of = max(STEPS - WARMUP, 1)
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * min(step - WARMUP + 1, of) / of))


def losses(model, dtype, side=IMAGE):
    weights = set_weights(model)
    decays = [p for name, p in weights.items() if p.dim() > 1 and not re.search("cls_token|position", name)]
    others = [p for p in weights.values() if not any(p is d for d in decays)]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=LR, betas=BETAS, eps=1e-8)
    model.train()
    out = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        pixels, labels = batch(step, side)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            logits = model(pixels) if isinstance(model, (Cnn, Unet)) else model(pixels).logits
        loss = torch.nn.functional.cross_entropy(logits.float(), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        out.append(loss.item())
    return out


def main():
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/vision_losses.txt"
    lines = [f"# Losses of ten steps, made by scripts/make_vision_golden.py with PyTorch {torch.__version__}, "
             f"transformers {transformers.__version__}"]
    for act, form in (("gelu", "exact"), ("quick_gelu", "quick")):
        for dtype in ("f32", "bf16"):
            row = " ".join(f"{loss:.9g}" for loss in losses(vit(act), dtype))
            lines.append(f"vit {form} {dtype} {row}")
    for dtype in ("f32", "bf16"):
        row = " ".join(f"{loss:.9g}" for loss in losses(Cnn(), dtype, 16))
        lines.append(f"cnn relu {dtype} {row}")
    for dtype in ("f32", "bf16"):
        row = " ".join(f"{loss:.9g}" for loss in losses(Unet(), dtype, 16))
        lines.append(f"unet relu {dtype} {row}")
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
