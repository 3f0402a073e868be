#!/usr/bin/env python3
"""Writes tests/golden/contrastive_losses.txt: ten AdamW steps of small models that hold images and texts against each
other, by the classes of transformers; needs PyTorch and transformers, whose versions the file names. The tests need only
the file.

Weights, images and texts come from integer formulas that tests/train/contrastive_golden_test.cpp repeats exactly.
"""
import pathlib

import numpy as np
import torch
import transformers

from make_vision_golden import BETAS, CHANNELS, CLIP, DECAY, LR, STEPS, rate, set_weights

VOCAB, END, SEQUENCE, SIDE, PATCH, SAMPLES = 61, 60, 9, 8, 4, 12
SCALE, BIAS = 2.0, -2.5
SLOWER = 0.03  # than the other golden models: a loss over all pairs is steeper
VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=SIDE,
              patch_size=PATCH, num_channels=CHANNELS)
TEXT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, vocab_size=VOCAB,
            max_position_embeddings=SEQUENCE, bos_token_id=58, eos_token_id=END, pad_token_id=END)


def clip():
    config = transformers.CLIPConfig(
        text_config=dict(TEXT, hidden_act="quick_gelu", layer_norm_eps=1e-5, projection_dim=16),
        vision_config=dict(VISION, hidden_act="quick_gelu", layer_norm_eps=1e-5, projection_dim=16), projection_dim=16)
    return transformers.CLIPModel(config)


def siglip():
    config = transformers.SiglipConfig(
        text_config=dict(TEXT, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, projection_size=32),
        vision_config=dict(VISION, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6))
    return transformers.SiglipModel(config)


def checkpoint_name(name):
    """Newer versions of transformers leave out a level of the towers."""
    for tower in ("vision_model", "text_model"):
        if name.startswith(tower + ".") and not name.startswith(f"{tower}.{tower}."):
            return name
        name = name.replace(f"{tower}.{tower}.", f"{tower}.")
    return name


def images(step):
    """Value j of image b, channels first: ((j + 17 b + 29 step)^2 mod 251) / 125 - 1."""
    j = np.arange(CHANNELS * SIDE * SIDE, dtype=np.int64)
    rows = [((j + 17 * b + 29 * step) ** 2 % 251).astype(np.float32) / np.float32(125) - np.float32(1)
            for b in range(SAMPLES)]
    return torch.from_numpy(np.stack(rows).reshape(SAMPLES, CHANNELS, SIDE, SIDE))


def texts(step):
    """Text b has 3 + (b + step) mod 6 tokens, token t: (7 t + 11 b + 3 step)^2 mod 59; then the end token to the end."""
    ids = np.full((SAMPLES, SEQUENCE), END)
    for b in range(SAMPLES):
        for t in range(3 + (b + step) % 6):
            ids[b, t] = (7 * t + 11 * b + 3 * step) ** 2 % 59
    return torch.from_numpy(ids)


def losses(model, dtype):
    weights = set_weights(model, checkpoint_name)
    with torch.no_grad():
        model.logit_scale.fill_(SCALE)
        if hasattr(model, "logit_bias"):
            model.logit_bias.fill_(BIAS)
    others = ("position", "class_embedding", "probe", "logit")
    decays = [p for name, p in weights.items() if p.dim() > 1 and not any(word in name for word in others)]
    rest = [p for p in weights.values() if not any(p is d for d in decays)]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}],
                                  lr=SLOWER * LR, betas=BETAS, eps=1e-8)
    model.train()
    out = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = SLOWER * rate(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            result = model(input_ids=texts(step), pixel_values=images(step), return_loss=True)
        result.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        out.append(result.loss.item())
    return out


def main():
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/contrastive_losses.txt"
    lines = [f"# Losses of ten steps, made by scripts/make_contrastive_golden.py with PyTorch {torch.__version__}, "
             f"transformers {transformers.__version__}"]
    for family, make in (("clip", clip), ("siglip", siglip)):
        for dtype in ("f32", "bf16"):
            row = " ".join(f"{loss:.9g}" for loss in losses(make(), dtype))
            lines.append(f"{family} {dtype} {row}")
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
