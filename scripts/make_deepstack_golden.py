#!/usr/bin/env python3
"""Writes tests/golden/deepstack_losses.txt: ten AdamW steps of small models whose vision layers feed several language
layers. transformers has no class of this shape, so the model is written out here, in float64, on the tape of
tape.py; it needs NumPy alone.

Before it writes, it computes the models of scripts/make_vlm_golden.py, which have no such features, and holds their losses
against those of PyTorch in tests/golden/vlm_losses.txt (f32, 1e-5). Weights, images and texts are that script's formulas.
"""
import math
import pathlib

import numpy as np

from tape import (Tensor, add, cross_entropy, exact_gelu, matmul, mul, normed, reshape, rows, softmax, swish, tanh_gelu,
                  transpose)

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/golden"
VOCAB, IMAGE_TOKEN, SEQUENCE, PATCH, ROWS, IMAGES, CHANNELS = 61, 60, 16, 4, 4, (1, 0, 2, 1), 3
HIDDEN, HEADS, KV_HEADS, FFN, LAYERS = 32, 4, 2, 64, 2
V_HIDDEN, V_HEADS, V_FFN, V_LAYERS = 24, 4, 48, 3
STEPS, LR, MIN_LR, WARMUP, BETAS, DECAY, CLIP, EPS = 10, 1e-2, 1e-3, 2, (0.9, 0.95), 0.1, 1.0, 1e-8


class Model:
    def __init__(self, family, deepstack):
        self.llava, self.deepstack = family == "llava", deepstack
        self.side = 8 if self.llava else 16
        self.eps = 1e-5 if self.llava else 1e-6
        llava = self.llava
        self.vision = "vision_tower.vision_model." if llava else "model.vision_model."
        self.text = "language_model.model." if llava else "model.text_model."
        self.head = "language_model.lm_head.weight" if llava else "lm_head.weight"
        self.projector = "multi_modal_projector." if llava else "model.connector.modality_projection."
        self.mergers = "deepstack_merger_list." if llava else "model.connector.deepstack_merger_list."
        self.weights = {name: Tensor(value) for name, value in formula_weights(self.shapes()).items()}

    def shapes(self):
        shapes, v = {}, self.vision

        def linear(name, out, inside, bias=True):
            shapes[name + ".weight"] = (out, inside)
            if bias:
                shapes[name + ".bias"] = (out,)

        def norm(name, width):
            shapes[name + ".weight"] = shapes[name + ".bias"] = (width,)

        def projection(name):
            if self.llava:
                linear(name + "linear_1", HIDDEN, V_HIDDEN)
                linear(name + "linear_2", HIDDEN, HIDDEN)
            else:
                linear(name + "proj", HIDDEN, 4 * V_HIDDEN, bias=False)
        linear(v + "embeddings.patch_embedding", V_HIDDEN, CHANNELS * PATCH * PATCH, bias=not self.llava)
        patches = (self.side // PATCH) ** 2
        shapes[v + "embeddings.position_embedding.weight"] = (patches + self.llava, V_HIDDEN)
        if self.llava:
            shapes[v + "embeddings.class_embedding"] = (V_HIDDEN,)
            norm(v + "pre_layrnorm", V_HIDDEN)
        for i in range(V_LAYERS):
            block = f"{v}encoder.layers.{i}."
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                linear(block + "self_attn." + part, V_HIDDEN, V_HIDDEN)
            linear(block + "mlp.fc1", V_FFN, V_HIDDEN)
            linear(block + "mlp.fc2", V_HIDDEN, V_FFN)
            norm(block + "layer_norm1", V_HIDDEN)
            norm(block + "layer_norm2", V_HIDDEN)
        norm(v + "post_layernorm", V_HIDDEN)
        projection(self.projector)
        for k in range(len(self.deepstack)):
            norm(f"{self.mergers}{k}.norm", V_HIDDEN)
            projection(f"{self.mergers}{k}.")
        shapes[self.text + "embed_tokens.weight"] = (VOCAB, HIDDEN)
        for i in range(LAYERS):
            block = f"{self.text}layers.{i}."
            for part, width in (("q", HIDDEN), ("k", HIDDEN * KV_HEADS // HEADS), ("v", HIDDEN * KV_HEADS // HEADS)):
                linear(block + f"self_attn.{part}_proj", width, HIDDEN, bias=False)
            linear(block + "self_attn.o_proj", HIDDEN, HIDDEN, bias=False)
            for part in ("gate", "up"):
                linear(block + f"mlp.{part}_proj", FFN, HIDDEN, bias=False)
            linear(block + "mlp.down_proj", HIDDEN, FFN, bias=False)
            shapes[block + "input_layernorm.weight"] = shapes[block + "post_attention_layernorm.weight"] = (HIDDEN,)
        shapes[self.text + "norm.weight"] = (HIDDEN,)
        shapes[self.head] = (VOCAB, HIDDEN)
        return shapes

    def linear(self, x, name):
        w = self.weights[name + ".weight"]
        y = matmul(x, transpose(w, 1, 0))
        return add(y, self.weights[name + ".bias"]) if name + ".bias" in self.weights else y

    def layernorm(self, x, name):
        return add(mul(normed(x, self.eps, centred=True), self.weights[name + ".weight"]), self.weights[name + ".bias"])

    def rmsnorm(self, x, name):
        return mul(normed(x, 1e-5, centred=False), self.weights[name + ".weight"])

    def attention(self, q, k, v, mask):
        """q, k and v [n, heads, length, width] -> [n, length, heads · width]"""
        scores = mul(matmul(q, transpose(k, 0, 1, 3, 2)), Tensor(np.array(1 / math.sqrt(q.value.shape[-1]))))
        y = transpose(matmul(softmax(add(scores, Tensor(mask))), v), 0, 2, 1, 3)
        return reshape(y, *y.value.shape[:2], -1)

    def vision_block(self, x, i):
        name = f"{self.vision}encoder.layers.{i}."
        n, length, _ = x.value.shape

        def heads(y):
            return transpose(reshape(y, n, length, V_HEADS, -1), 0, 2, 1, 3)
        y = self.layernorm(x, name + "layer_norm1")
        q, k, v = (heads(self.linear(y, f"{name}self_attn.{part}_proj")) for part in "qkv")
        x = add(x, self.linear(self.attention(q, k, v, np.zeros((length, length))), name + "self_attn.out_proj"))
        y = self.linear(self.layernorm(x, name + "layer_norm2"), name + "mlp.fc1")
        y = swish(y, 1.702) if self.llava else tanh_gelu(y)
        return add(x, self.linear(y, name + "mlp.fc2"))

    def projection(self, x, name):
        """[images, patches, width] -> [images · rows, hidden]"""
        if self.llava:
            x = self.linear(exact_gelu(self.linear(x, name + "linear_1")), name + "linear_2")
        else:
            n, side = x.value.shape[0], self.side // PATCH
            x = transpose(reshape(x, n, side // 2, 2, side // 2, 2, V_HIDDEN), 0, 1, 3, 2, 4, 5)
            x = self.linear(reshape(x, n, ROWS, 4 * V_HIDDEN), name + "proj")
        return reshape(x, -1, HIDDEN)

    def without_class(self, x):
        return rows(x, (slice(None), slice(1, None))) if self.llava else x

    def images(self, pixels):
        """The rows that stand in the text, and those that are added after language layers 0, 1, …"""
        n, side = pixels.shape[0], self.side // PATCH
        patches = pixels.reshape(n, CHANNELS, side, PATCH, side, PATCH).transpose(0, 2, 4, 1, 3, 5)
        x = self.linear(Tensor(patches.reshape(n, side * side, -1)), self.vision + "embeddings.patch_embedding")
        positions = self.weights[self.vision + "embeddings.position_embedding.weight"]
        if self.llava:
            token = self.weights[self.vision + "embeddings.class_embedding"]
            joined = np.concatenate([np.tile(token.value, (n, 1, 1)), x.value], 1)
            x = Tensor(joined, ((token, lambda g: g[:, 0].sum(0)), (x, lambda g: g[:, 1:])))
        x = add(x, positions)
        if self.llava:
            x = self.layernorm(x, self.vision + "pre_layrnorm")
        features = []
        for i in range(V_LAYERS - self.llava):
            x = self.vision_block(x, i)
            if i in self.deepstack:
                name = f"{self.mergers}{len(features)}."
                features.append(self.projection(self.layernorm(self.without_class(x), name + "norm"), name))
        x = self.without_class(x) if self.llava else self.layernorm(x, self.vision + "post_layernorm")
        return self.projection(x, self.projector), features

    def language_block(self, x, i):
        name = f"{self.text}layers.{i}."
        n, width = x.value.shape[0] // SEQUENCE, HIDDEN // HEADS
        angle = np.arange(SEQUENCE)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
        cos, sin = np.tile(np.cos(angle), 2), np.tile(np.sin(angle), 2)
        turn = np.zeros((width, width))  # x @ turn = (-second half, first half)
        turn[width // 2:, :width // 2], turn[:width // 2, width // 2:] = -np.eye(width // 2), np.eye(width // 2)

        def heads(y, count, rotary):
            y = transpose(reshape(y, n, SEQUENCE, count, width), 0, 2, 1, 3)
            if rotary:
                y = add(mul(y, Tensor(cos)), mul(matmul(y, Tensor(turn)), Tensor(sin)))
            return rows(y, (slice(None), np.repeat(np.arange(count), HEADS // count)))
        y = self.rmsnorm(x, name + "input_layernorm")
        q = heads(self.linear(y, name + "self_attn.q_proj"), HEADS, True)
        k = heads(self.linear(y, name + "self_attn.k_proj"), KV_HEADS, True)
        v = heads(self.linear(y, name + "self_attn.v_proj"), KV_HEADS, False)
        mask = np.where(np.tri(SEQUENCE, dtype=bool), 0.0, -1e30)
        y = reshape(self.attention(q, k, v, mask), -1, HIDDEN)
        x = add(x, self.linear(y, name + "self_attn.o_proj"))
        y = self.rmsnorm(x, name + "post_attention_layernorm")
        gated = mul(swish(self.linear(y, name + "mlp.gate_proj"), 1.0), self.linear(y, name + "mlp.up_proj"))
        return add(x, self.linear(gated, name + "mlp.down_proj"))

    def loss(self, step):
        ids, targets = texts(step)
        image_rows, features = self.images(np.stack([image(step, n, self.side) for n in range(sum(IMAGES))]))
        at = np.nonzero(ids == IMAGE_TOKEN)[0]
        embedded = rows(self.weights[self.text + "embed_tokens.weight"], ids)

        def joined(base, new):
            value = base.value.copy()
            value[at] = new.value
            return Tensor(value, ((base, lambda g: np.where((ids == IMAGE_TOKEN)[:, None], 0, g)), (new, lambda g: g[at])))

        def added(base, new):
            value = base.value.copy()
            value[at] += new.value
            return Tensor(value, ((base, lambda g: g), (new, lambda g: g[at])))
        x = joined(embedded, image_rows)
        for i in range(LAYERS):
            x = self.language_block(x, i)
            if i < len(features):
                x = added(x, features[i])
        logits = matmul(self.rmsnorm(x, self.text + "norm"), transpose(self.weights[self.head], 1, 0))
        return cross_entropy(logits, targets)


def formula_weights(shapes):
    """Tensor k (by name), element i: ((1664525 i + 1013904223 (k + 1)) mod 2^24) / 2^24 - 1/2, over 4; norms + 1."""
    weights = {}
    for k, name in enumerate(sorted(shapes)):
        i = np.arange(math.prod(shapes[name]), dtype=np.uint64)
        u = (i * np.uint64(1664525) + np.uint64(1013904223) * np.uint64(k + 1)) % np.uint64(1 << 24)
        w = (u.astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)) / np.float32(4)
        if len(shapes[name]) == 1 and name.endswith(".weight"):
            w = w + np.float32(1)
        weights[name] = w.astype(np.float64).reshape(shapes[name])
    return weights


def image(step, number, side):
    """Value j of image n of a step, channels first: ((j + 17 n + 29 step)^2 mod 251) / 125 - 1."""
    j = np.arange(CHANNELS * side * side, dtype=np.int64)
    values = ((j + 17 * number + 29 * step) ** 2 % 251).astype(np.float32) / np.float32(125) - np.float32(1)
    return values.astype(np.float64).reshape(CHANNELS, side, side)


def texts(step):
    """As in make_vlm_golden.py; what is not to be predicted is -1."""
    ids = np.array([[(7 * t + 11 * b + 3 * step) ** 2 % 59 for t in range(SEQUENCE + 1)] for b in range(len(IMAGES))])
    learned = np.zeros(ids.shape, bool)
    for b, images in enumerate(IMAGES):
        ids[b, 1:1 + ROWS * images] = IMAGE_TOKEN
        learned[b] = [t > ROWS * images and (t + b) % 3 != 0 for t in range(SEQUENCE + 1)]
    return ids[:, :-1].reshape(-1), np.where(learned[:, 1:], ids[:, 1:], -1).reshape(-1)


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    of = max(STEPS - WARMUP, 1)
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * min(step - WARMUP + 1, of) / of))


def losses(model):
    moments = {name: [np.zeros_like(w.value), np.zeros_like(w.value)] for name, w in model.weights.items()}
    out = []
    for step in range(STEPS):
        for weight in model.weights.values():
            weight.gradient = None
        loss = model.loss(step)
        loss.backward()
        out.append(float(loss.value))
        used = {name: w for name, w in model.weights.items() if w.gradient is not None}
        norm = math.sqrt(sum((w.gradient ** 2).sum() for w in used.values()))
        for name, w in used.items():
            g = w.gradient * min(1.0, CLIP / (norm + 1e-6))
            if w.value.ndim > 1 and "position" not in name:
                w.value = w.value * (1 - rate(step) * DECAY)
            m, v = moments[name]
            m[...], v[...] = BETAS[0] * m + (1 - BETAS[0]) * g, BETAS[1] * v + (1 - BETAS[1]) * g * g
            w.value = w.value - rate(step) * (m / (1 - BETAS[0] ** (step + 1))) / (
                np.sqrt(v / (1 - BETAS[1] ** (step + 1))) + EPS)
    return out


def check_against_torch():
    for line in (GOLDEN / "vlm_losses.txt").read_text().splitlines():
        family, dtype, *theirs = line.split()
        if dtype != "f32":
            continue
        ours = losses(Model(family, ()))
        worst = max(abs(a - float(b)) / float(b) for a, b in zip(ours, theirs, strict=True))
        print(f"{family} without features: {worst:.1e} from PyTorch")
        assert worst < 1e-5, (ours, theirs)


def main():
    check_against_torch()
    lines = [f"# Losses of ten steps, made by scripts/make_deepstack_golden.py with NumPy {np.__version__} in float64"]
    for family, deepstack in (("llava", (0, 1)), ("smolvlm", (0, 2))):
        row = " ".join(f"{loss:.9g}" for loss in losses(Model(family, deepstack)))
        lines.append(f"{family} {','.join(map(str, deepstack))} {row}")
    (GOLDEN / "deepstack_losses.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
