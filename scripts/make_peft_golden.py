#!/usr/bin/env python3
"""Writes tests/golden/peft_losses.txt: ten AdamW steps of the adapters of a tiny GPT-2 and a tiny Llama in PEFT, and
tests/golden/peft/<kind>/, the adapters as PEFT saved them after the last step.

Run it with any PyTorch, transformers and PEFT; the file names the versions. The tests need only the files. Weights, those
of the adapters included, and tokens come from the integer formulas of make_torch_golden.py.

With --check DIR it says what loss PEFT finds for an adapter in DIR that cleave saved, on the tokens of step 0.
"""
import pathlib
import sys

import numpy as np
import peft
import torch
import torch.nn.functional as F
import transformers

import make_torch_golden as formulas

RANK, ALPHA = 4, 6
TARGETS = {"gpt": ["c_attn", "c_proj", "c_fc"], "llama": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]}
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"


def base(kind):
    f = formulas
    if kind == "gpt":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=f.VOCAB, n_positions=f.SEQUENCE, n_embd=f.HIDDEN, n_layer=f.LAYERS, n_head=f.HEADS, n_inner=f.FFN,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, attn_implementation="eager"))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=f.VOCAB, hidden_size=f.HIDDEN, intermediate_size=f.FFN, num_hidden_layers=f.LAYERS,
        num_attention_heads=f.HEADS, num_key_value_heads=f.KV_HEADS[kind], max_position_embeddings=f.SEQUENCE,
        rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False, attn_implementation="eager"))


def our_name(name):
    """base_model.model.x.lora_A.default.weight, or x.base_layer.weight, as cleave calls it."""
    return name.removeprefix("base_model.model.").replace(".default.", ".").replace(".base_layer.", ".")


def fill(model):
    """Every tensor by the formula of its place among all names."""
    parameters = {our_name(n): p for n, p in model.named_parameters()}
    for k, (name, p) in enumerate(sorted(parameters.items())):
        i = np.arange(p.numel(), dtype=np.uint64)
        u = (i * np.uint64(1664525) + np.uint64(1013904223) * np.uint64(k + 1)) % np.uint64(1 << 24)
        w = (u.astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)) / np.float32(4)
        if p.dim() == 1 and name.endswith(".weight"):
            w = w + np.float32(1)
        p.data.copy_(torch.from_numpy(w.reshape(tuple(p.shape))))
    return parameters


def loss_of(model, step):
    x, y = formulas.tokens(step)
    return F.cross_entropy(model(x).logits.view(-1, formulas.VOCAB), y.reshape(-1))


def train(kind, rslora):
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=TARGETS[kind], use_rslora=rslora,
                             task_type="CAUSAL_LM", fan_in_fan_out=kind == "gpt")
    model = peft.get_peft_model(base(kind), config)
    parameters = fill(model)
    learns = [p for n, p in parameters.items() if p.requires_grad]
    optimizer = torch.optim.AdamW(learns, lr=formulas.LR, betas=formulas.BETAS, eps=1e-8, weight_decay=formulas.DECAY)
    out = []
    for step in range(formulas.STEPS):
        for group in optimizer.param_groups:
            group["lr"] = formulas.rate(step, "cosine")
        loss = loss_of(model, step)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learns, formulas.CLIP)
        optimizer.step()
        out.append(loss.item())
    if not rslora:
        model.save_pretrained(GOLDEN / "peft" / kind)
        (GOLDEN / "peft" / kind / "README.md").unlink(missing_ok=True)
    return out


def check(directory):
    kind = "gpt" if "c_attn" in (pathlib.Path(directory) / "adapter_config.json").read_text() else "llama"
    model = base(kind)
    fill(peft.get_peft_model(model, peft.LoraConfig(r=RANK, target_modules=TARGETS[kind])))
    plain = model.unload() if hasattr(model, "unload") else model
    print(loss_of(peft.PeftModel.from_pretrained(plain, directory), 0).item())


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = [f"# Losses of ten steps of adapters, made by scripts/make_peft_golden.py with PyTorch {torch.__version__}, "
            f"transformers {transformers.__version__}, PEFT {peft.__version__}"]
    for kind in ("gpt", "llama"):
        for rslora in (False, True):
            values = " ".join(f"{loss:.9g}" for loss in train(kind, rslora))
            rows.append(f"{kind} {'rslora' if rslora else 'lora'} {values}")
    (GOLDEN / "peft_losses.txt").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else main()
