"""Generation by Python's runners over what hfx exports of other kinds of models: python check_generation_parts.py HFX LLAVA
MAMBA.

LLAVA and MAMBA are what tests/reference/make_llava.py and make_mamba.py wrote. A prompt with images goes through the parts
of LLaVA, put together here as its forward does; Mamba's states go from prefill to decode. The tokens are those of generate.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
from safetensors import safe_open
from transformers import DynamicCache
from transformers.exporters import ExportedModel


def recorded(checkpoint):
    with safe_open(checkpoint / "generation.safetensors", "pt") as file:
        settings = json.loads(file.metadata()["cases"])["greedy"]
        return settings, {name[7:]: file.get_tensor(name) for name in file.keys() if name.startswith("greedy.")}


def positions_of(mask):
    return (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)


def image_prompt(exported, tensors, ids, mask):
    """Logits of the last position, and the cache."""
    config, runners = exported.config, exported.runners
    encoded = runners["image_encoder"](pixel_values=tensors["pixel_values"])
    states = encoded.hidden_states[config.vision_feature_layer]
    features = runners["multi_modal_projector"](image_features=states[:, 1:].contiguous())
    embeddings = runners["embed_tokens"](input_ids=ids)
    merged = embeddings.masked_scatter((ids == config.image_token_id)[..., None], features)
    output = runners["language_model"](inputs_embeds=merged, attention_mask=mask, position_ids=positions_of(mask),
                                       cache=DynamicCache(config=config.text_config))
    return runners["lm_head"](input=output.last_hidden_state[:, -1:].contiguous())[:, -1], output.cache


def llava_tokens(exported, tensors, new):
    ids, mask = tensors["input_ids"], tensors["attention_mask"]
    logits, cache = image_prompt(exported, tensors, ids, mask)
    while True:
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], -1)
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], -1)
        if ids.shape[1] == tensors["input_ids"].shape[1] + new:
            return ids
        output = exported.runners["decode"](input_ids=ids[:, -1:].contiguous(), attention_mask=mask, cache=cache,
                                            position_ids=positions_of(mask)[:, -1:].contiguous())
        logits, cache = output.logits[:, -1], output.cache


def mamba_tokens(exported, tensors, new):
    ids = tensors["input_ids"]
    output = exported.runners["prefill"](input_ids=ids, attention_mask=tensors["attention_mask"],
                                         cache=DynamicCache(config=exported.config))
    while True:
        ids = torch.cat([ids, output.logits[:, -1].argmax(-1, keepdim=True)], -1)
        if ids.shape[1] == tensors["input_ids"].shape[1] + new:
            return ids
        output = exported.runners["decode"](input_ids=ids[:, -1:].contiguous(), cache=output.cache)


def main():
    hfx, llava, mamba = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    for checkpoint, tokens in ((llava / "LlavaForConditionalGeneration_plain_0", llava_tokens),
                               (mamba / "MambaForCausalLM_plain_0", mamba_tokens)):
        settings, tensors = recorded(checkpoint)
        for to in ("onnx", "dynamo"):
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([hfx, "export", checkpoint, "--to", to, "--generation", "-o", folder], check=True,
                               stdout=subprocess.DEVNULL)
                exported = ExportedModel.from_pretrained(folder, trust_remote_code=True)
                got = tokens(exported, tensors, settings["max_new_tokens"])
                assert torch.equal(got, tensors["sequences"]), f"{checkpoint.name} {to}: {got} {tensors['sequences']}"
        print(f"{checkpoint.name}: ok")


if __name__ == "__main__":
    main()
