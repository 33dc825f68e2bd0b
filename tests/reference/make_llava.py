"""Tiny random LLaVA checkpoints, with inputs, caches and the outputs of transformers, and what it generates with them.

    python make_llava.py OUTDIR

Writes OUTDIR/<class>_<config>_<seed>/ as make_decoders.py writes its folders; a None within an output is recorded as a
tensor of size 0. generation.safetensors in a folder holds generate calls as make_generation.py records them, with
"<case>.pixel_values" where there are images.
"""

import os
import sys

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

import checkpoints
from checkpoints import RECORDED, eager_attention, folder_of, padded, positions_of, randomize, record_generation, saved
from make_decoders import BASE

import torch
import transformers
from torch.utils import _pytree as pytree
from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

IMAGE_TOKEN = 60
TEXT = {**BASE, "max_position_embeddings": 128}
VISION = dict(hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40, image_size=12, patch_size=4)
CLIP = transformers.CLIPVisionConfig
# {config name: (image tokens of each image, settings)}
CONFIGS = {
    "plain": (9, dict(vision_config=CLIP(**VISION), text_config=transformers.LlamaConfig(**TEXT))),
    "layers": (9, dict(vision_config=transformers.SiglipVisionConfig(**VISION, vision_use_head=False),
                       text_config=transformers.MistralConfig(**TEXT, sliding_window=7),
                       vision_feature_layer=[-1, 1], vision_feature_select_strategy="full", projector_hidden_act="relu",
                       multimodal_projector_bias=False, tie_word_embeddings=True)),
    "scaled": (10, dict(vision_config=CLIP(**VISION), vision_feature_layer=2, vision_feature_select_strategy="full",
                        text_config=transformers.GemmaConfig(**TEXT, head_dim=8))),
}
NEW_TOKENS = 32
MARGIN = 1e-3


def call(model, path, inputs, flags=None):
    """checkpoints.call, with empty tensors for None."""
    def without_none(**arguments):
        return pytree.tree_map(lambda leaf: torch.zeros(0) if leaf is None else leaf, model(**arguments))
    return checkpoints.call(without_none, path, inputs, flags)


def ids_with_images(images, tokens, text, seed):
    """A row for each entry of `images`, which says how many stand between its words; all rows have one length."""
    generator = torch.Generator().manual_seed(500 + seed)
    length = max(images) * tokens + text
    ids = torch.randint(3, IMAGE_TOKEN, (len(images), length), generator=generator)
    for row, count in enumerate(images):
        for i in range(count):
            start = length - text - (i + 1) * tokens + (1 if i == 0 else 0)
            ids[row, start:start + tokens] = IMAGE_TOKEN
    return ids


def pixels(count, seed):
    return torch.randn(count, 3, 12, 12, generator=torch.Generator().manual_seed(2000 + seed))


def make_calls(model, tokens, folder, seed):
    file = lambda name: os.path.join(folder, f"io_{name}.safetensors")
    for name, images, side in (("one", [1], "left"), ("left", [1, 1], "left"), ("right", [1, 1, 1], "right"),
                               ("mixed", [2, 0, 1], "left")):
        ids = ids_with_images(images, tokens, 6, seed)
        mask = padded(ids.shape, side)
        mask[ids == IMAGE_TOKEN] = 1
        inputs = {"input_ids": ids, "pixel_values": pixels(sum(images), seed), "attention_mask": mask,
                  "position_ids": positions_of(mask)}
        cache = call(model, file(f"{name}_prefill"), inputs).cache
        for step, queries in enumerate((1, 3)):
            more = ids_with_images([0] * len(images), 0, queries, 50 + step)
            mask = torch.cat([mask, torch.ones(len(images), queries, dtype=torch.int64)], -1)
            cache = call(model, file(f"{name}_decode{step}"), {
                "input_ids": more, "attention_mask": mask, "position_ids": positions_of(mask)[:, -queries:],
                "cache": cache}).cache
    ids = ids_with_images([1, 1], tokens, 4, seed)
    images = pixels(2, seed)
    call(model, file("text"), {"input_ids": ids_with_images([0, 0], tokens, 5, seed)})
    call(model, file("no_cache"), {"input_ids": ids, "pixel_values": images}, {"use_cache": False})
    embeds = model.get_input_embeddings()(ids).detach()
    call(model, file("embeds"), {"inputs_embeds": embeds, "pixel_values": images})
    call(model, file("tuple"), {"input_ids": ids, "pixel_values": images}, {"return_dict": False, "use_cache": False})
    if hasattr(model, "lm_head"):
        call(model, file("keep_last"), {"input_ids": ids, "pixel_values": images}, {"logits_to_keep": 2})
    with eager_attention(model):
        call(model, file("recorded"), {"input_ids": ids, "pixel_values": images}, RECORDED)


def generate(model, inputs, settings):
    """Sequences, and the smallest difference between the two best scores at any step."""
    output = model.generate(**inputs, **settings, output_scores=True, return_dict_in_generate=True)
    best = torch.stack([scores.topk(2).values for scores in output.scores])
    return output.sequences, (best[..., 0] - best[..., 1]).min().item()


def cases(model, tokens):
    """(name, settings of generate, inputs, sequences)."""
    for name, images, text in (("greedy", [1, 1], 6), ("alone", [2], 5), ("text", [0, 0], 7)):
        settings = dict(max_new_tokens=NEW_TOKENS, eos_token_id=None)
        for seed in range(200):
            ids = ids_with_images(images, tokens, text, seed)
            mask = padded(ids.shape, "left")
            # Whatever is left of the text is padding; images stay.
            mask[ids == IMAGE_TOKEN] = 1
            inputs = {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}
            if sum(images):
                inputs["pixel_values"] = pixels(sum(images), seed)
            sequences, margin = generate(model, inputs, settings)
            if margin >= MARGIN:
                break
        else:
            raise RuntimeError(f"{name}: no prompt whose best scores differ by {MARGIN}")
        yield name, settings, inputs, sequences


def make_case(out, cls, name, seed, dtype=torch.float32):
    tokens, settings = CONFIGS[name]
    config = transformers.LlavaConfig(**settings, image_token_index=IMAGE_TOKEN)
    model = cls(config).eval()
    randomize(model, 10 * seed + 3, 0.15)
    folder = folder_of(out, model, name, seed, dtype)
    model = saved(model, folder, dtype)
    register_cache_pytrees_for_model(model)
    make_calls(model, tokens, folder, seed)
    if seed == 0 and hasattr(model, "lm_head"):
        record_generation(os.path.join(folder, "generation.safetensors"), cases(model, tokens))


def main():
    out = sys.argv[1]
    for name in CONFIGS:
        for seed in range(2):
            make_case(out, transformers.LlavaForConditionalGeneration, name, seed)
        make_case(out, transformers.LlavaModel, name, 0)
    make_case(out, transformers.LlavaForConditionalGeneration, "plain", 9, torch.bfloat16)
    mark_current(__file__)


if __name__ == "__main__":
    main()
