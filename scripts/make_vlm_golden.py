#!/usr/bin/env python3
"""Writes tests/golden/vlm_losses.txt: ten AdamW steps of small models that read texts with images, by the classes of
transformers; needs PyTorch and transformers, whose versions the file names. The tests need only the file.

Weights, images and texts come from integer formulas that tests/train/vlm_golden_test.cpp repeats exactly. Samples have
one, no, two and one image; part of each text is not to be predicted.
"""
import pathlib
import re

import numpy as np
import torch
import transformers

from make_vision_golden import BETAS, CHANNELS, CLIP, DECAY, LR, STEPS, rate, set_weights

VOCAB, IMAGE_TOKEN, SEQUENCE, PATCH, ROWS, IMAGES = 61, 60, 16, 4, 4, (1, 0, 2, 1)
TEXT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
            vocab_size=VOCAB, max_position_embeddings=SEQUENCE, rms_norm_eps=1e-5, rope_theta=10000.0,
            tie_word_embeddings=False)
VISION = dict(hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48, patch_size=PATCH,
              num_channels=CHANNELS)


def llava():
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(image_size=8, hidden_act="quick_gelu", layer_norm_eps=1e-5, **VISION),
        text_config=transformers.LlamaConfig(**TEXT), image_token_index=IMAGE_TOKEN, projector_hidden_act="gelu",
        vision_feature_layer=-2, vision_feature_select_strategy="default", tie_word_embeddings=False)
    return transformers.LlavaForConditionalGeneration(config)


def smolvlm():
    vision = dict(image_size=16, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, model_type="smolvlm_vision", **VISION)
    config = transformers.SmolVLMConfig(vision_config=vision, text_config=dict(model_type="llama", **TEXT),
                                        image_token_id=IMAGE_TOKEN, scale_factor=2, tie_word_embeddings=False,
                                        pad_token_id=0)
    return transformers.SmolVLMForConditionalGeneration(config)


# What newer versions of transformers call the tensors of a checkpoint, and what they are called there.
RENAMED = {
    "llava": [(r"^model\.language_model\.", "language_model.model."), (r"^lm_head\.", "language_model.lm_head."),
              (r"^model\.multi_modal_projector\.", "multi_modal_projector."),
              (r"^model\.vision_tower\.(vision_model\.)?", "vision_tower.vision_model.")],
    "smolvlm": [],
}


def image(step, number, side):
    """Value j of image n of a step, channels first: ((j + 17 n + 29 step)^2 mod 251) / 125 - 1."""
    j = np.arange(CHANNELS * side * side, dtype=np.int64)
    values = ((j + 17 * number + 29 * step) ** 2 % 251).astype(np.float32) / np.float32(125) - np.float32(1)
    return values.reshape(CHANNELS, side, side)


def texts(step):
    """Token t of sample b: (7 t + 11 b + 3 step)^2 mod 59, and its images from token 1 on. What comes after them is to be
    predicted unless (t + b) mod 3 is 0."""
    ids = np.array([[(7 * t + 11 * b + 3 * step) ** 2 % 59 for t in range(SEQUENCE + 1)] for b in range(len(IMAGES))])
    learned = np.zeros(ids.shape, bool)
    for b, images in enumerate(IMAGES):
        ids[b, 1:1 + ROWS * images] = IMAGE_TOKEN
        learned[b] = [t > ROWS * images and (t + b) % 3 != 0 for t in range(SEQUENCE + 1)]
    targets = np.where(learned[:, 1:], ids[:, 1:], -100)
    return torch.from_numpy(ids[:, :-1]), torch.from_numpy(targets)


def logits(model, family, step):
    side = model.config.vision_config.image_size
    images = [image(step, n, side) for n in range(sum(IMAGES))]
    ids, _ = texts(step)
    pixels = torch.from_numpy(np.stack(images))
    if family == "llava":
        return model(input_ids=ids, pixel_values=pixels).logits
    padded, real = torch.zeros(len(IMAGES), max(IMAGES), *pixels.shape[1:]), iter(pixels)  # all zero: no image
    for b, count in enumerate(IMAGES):
        for i in range(count):
            padded[b, i] = next(real)
    return model(input_ids=ids, pixel_values=padded).logits


def losses(model, family, dtype):
    weights = set_weights(model, lambda name: rename(family, name))
    decays = [p for name, p in weights.items() if p.dim() > 1 and "position" not in name]
    others = [p for p in weights.values() if not any(p is d for d in decays)]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=LR, betas=BETAS, eps=1e-8)
    model.train()
    out = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            scores = logits(model, family, step)
        loss = torch.nn.functional.cross_entropy(scores.float().flatten(0, 1), texts(step)[1].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        out.append(loss.item())
    return out


def rename(family, name):
    for pattern, becomes in RENAMED[family]:
        name = re.sub(pattern, becomes, name)
    return name


def main():
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/vlm_losses.txt"
    lines = [f"# Losses of ten steps, made by scripts/make_vlm_golden.py with PyTorch {torch.__version__}, "
             f"transformers {transformers.__version__}"]
    for family, make in (("llava", llava), ("smolvlm", smolvlm)):
        for dtype in ("f32", "bf16"):
            row = " ".join(f"{loss:.9g}" for loss in losses(make(), family, dtype))
            lines.append(f"{family} {dtype} {row}")
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
