"""Tiny random checkpoints of the models of images and texts, with inputs and the outputs of transformers.

    python make_vision.py OUTDIR

Writes OUTDIR/<model type>/<class>_<config>_<seed>/ as make_encoders.py does.
"""

import os
import sys

from reference_folder import exit_if_current, mark_current

if __name__ == "__main__":
    exit_if_current(__file__)

from checkpoints import RECORDED, eager_attention, folder_of, make_families, randomize, record, saved

import torch
import transformers

VIT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, image_size=12, patch_size=4,
           num_channels=3, encoder_stride=4)
VIT_CONFIGS = {
    "plain": dict(num_labels=5),
    "changed": dict(qkv_bias=False, hidden_act="relu", layer_norm_eps=1e-3, num_channels=1, image_size=15, patch_size=5,
                    encoder_stride=2, pooler_output_size=10, pooler_act="relu", num_labels=1),
}
TEXT = dict(vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
            max_position_embeddings=16, pad_token_id=1, bos_token_id=58, eos_token_id=59)
IMAGE = {k: VIT[k] for k in VIT if k != "encoder_stride"}
CLIP_TEXT = {"plain": dict(TEXT, projection_dim=14),
             "changed": dict(TEXT, eos_token_id=2, hidden_act="gelu", layer_norm_eps=1e-3, projection_dim=8)}
CLIP_VISION = {"plain": dict(IMAGE, projection_dim=14),
               "changed": dict(IMAGE, num_channels=1, hidden_act="relu", layer_norm_eps=1e-3, projection_dim=8)}
SIGLIP_TEXT = {"plain": dict(TEXT), "changed": dict(TEXT, hidden_act="relu", layer_norm_eps=1e-3, projection_size=24)}
SIGLIP_VISION = {"plain": dict(IMAGE),
                 "changed": dict(IMAGE, num_channels=1, vision_use_head=False, hidden_act="gelu")}
CLIP_BOTH = {name: dict(text_config=CLIP_TEXT[name], vision_config=CLIP_VISION[name], projection_dim=10 + 3 * i,
                        num_labels=4 - 3 * i) for i, name in enumerate(CLIP_TEXT)}
SIGLIP_BOTH = {"plain": dict(text_config=SIGLIP_TEXT["plain"], vision_config=SIGLIP_VISION["plain"], num_labels=4),
               "changed": dict(text_config=SIGLIP_TEXT["changed"], vision_config={**SIGLIP_VISION["plain"], "eps": 1e-3},
                               num_labels=1)}

# model type: (classes, {config name: settings})
FAMILIES = {
    "vit": (["ViTModel", "ViTForImageClassification", "ViTForMaskedImageModeling"],
            {name: {**VIT, **changes} for name, changes in VIT_CONFIGS.items()}),
    "deit": (["DeiTModel", "DeiTForImageClassification", "DeiTForMaskedImageModeling",
              "DeiTForImageClassificationWithTeacher"],
             {name: {**VIT, **changes} for name, changes in VIT_CONFIGS.items()}),
    "dinov2": (["Dinov2Model", "Dinov2ForImageClassification", "Dinov2Backbone"], {
        "plain": dict(IMAGE, mlp_ratio=2, num_labels=5, layerscale_value=0.5, out_features=["stem", "stage2"]),
        "swiglu": dict(IMAGE, mlp_ratio=3, use_swiglu_ffn=True, use_mask_token=False, qkv_bias=False, num_labels=1,
                       out_indices=[1, -1], apply_layernorm=False),
        "flat": dict(IMAGE, mlp_ratio=1, hidden_act="relu", reshape_hidden_states=False),
    }),
    "clip_text_model": (["CLIPTextModel", "CLIPTextModelWithProjection"], CLIP_TEXT),
    "clip_vision_model": (["CLIPVisionModel", "CLIPVisionModelWithProjection"], CLIP_VISION),
    "clip": (["CLIPModel", "CLIPForImageClassification"], CLIP_BOTH),
    "siglip_text_model": (["SiglipTextModel"], SIGLIP_TEXT),
    "siglip_vision_model": (["SiglipVisionModel"], SIGLIP_VISION),
    "siglip": (["SiglipModel", "SiglipForImageClassification"], SIGLIP_BOTH),
}


def pixels_of(config, count, seed, size=None):
    vision = getattr(config, "vision_config", config)
    size = size or (vision.image_size, vision.image_size)
    generator = torch.Generator().manual_seed(2000 + seed)
    return torch.randn(count, vision.num_channels, *size, generator=generator)


def texts_of(config, shape, seed, with_mask):
    """Ids with the one that ends a text; the second row is padded on the right."""
    text = getattr(config, "text_config", config)
    generator = torch.Generator().manual_seed(1000 + seed)
    ids = torch.randint(5, 55, shape, generator=generator)
    mask = torch.ones(shape, dtype=torch.int64)
    ends = [shape[1] - 1] * shape[0]
    if shape[0] > 1 and shape[1] > 3:
        ends[1] = shape[1] - 3
    for row, end in enumerate(ends):
        ids[row, end] = 59
        ids[row, end + 1:] = text.pad_token_id
        mask[row, end + 1:] = 0
    return {"input_ids": ids, "attention_mask": mask} if with_mask else {"input_ids": ids}


def inputs_for(cls, config, batch, seed):
    with_mask = "clip" in config.model_type
    name = cls.__name__
    if "Text" in name:
        return texts_of(config, (batch, {1: 1, 2: 7, 3: 12}[batch]), seed, with_mask)
    inputs = {"pixel_values": pixels_of(config, batch, seed)}
    if name in ("CLIPModel", "SiglipModel"):
        inputs = {**texts_of(config, (4 - batch, 9), seed, with_mask), **inputs}
    return inputs


def make_calls(model, family, folder, seed):
    call = lambda name, inputs, flags=None: record(model, os.path.join(folder, f"io_call_{name}.safetensors"), inputs, flags)
    config = model.config
    name = type(model).__name__
    if "Text" in name:
        texts = texts_of(config, (2, 7), seed, True)
        call("mask", texts)
        call("positions", {"input_ids": texts["input_ids"], "position_ids": torch.arange(7).flip(0)[None]})
        return
    vision = getattr(config, "vision_config", config)
    flags = {} if family == "dinov2" else {"interpolate_pos_encoding": True}
    texts = texts_of(config, (2, 7), seed, False) if name in ("CLIPModel", "SiglipModel") else {}
    if name != "CLIPForImageClassification":
        for rows, columns in ((2, 5), (3, 3), (4, 4)) if "Masked" not in name else ((4, 4),):
            size = (rows * vision.patch_size, columns * vision.patch_size + (0 if rows == columns else 1))
            call(f"size_{rows}x{columns}", {**texts, "pixel_values": pixels_of(config, 2, seed, size)}, flags)
    if name == "Dinov2Model" and config.use_mask_token:
        masked = torch.arange(9)[None].expand(2, 9) % 3 == 0
        call("masked", {"pixel_values": pixels_of(config, 2, seed), "bool_masked_pos": masked.clone()})
    if name not in ("CLIPModel", "SiglipModel"):
        call("tuple", {"pixel_values": pixels_of(config, 2, seed)},
             {"return_dict": False, "output_hidden_states": True})


def make_case(out, family, cls_name, config_name, seed, dtype=torch.float32):
    cls = getattr(transformers, cls_name)
    model = cls(cls.config_class(**FAMILIES[family][1][config_name])).eval()
    randomize(model, 100 * seed + len(family))
    folder = folder_of(os.path.join(out, family), model, config_name, seed, dtype)
    model = saved(model, folder, dtype)
    for batch in (1, 2, 3):
        inputs = inputs_for(cls, model.config, batch, seed)
        record(model, os.path.join(folder, f"io_b{batch}.safetensors"), inputs)
    if dtype == torch.float32:
        with eager_attention(model):
            record(model, os.path.join(folder, "io_recorded.safetensors"), inputs, RECORDED)
        if seed == 0:
            make_calls(model, family, folder, seed)


def make_family(out, family):
    classes, configs = FAMILIES[family]
    for config_name in configs:
        for seed in range(2):
            for cls_name in classes if seed == 0 else classes[:2]:
                make_case(out, family, cls_name, config_name, seed)
    make_case(out, family, classes[-1], next(iter(configs)), 9, torch.bfloat16)


def main():
    out = sys.argv[1]
    make_families(make_family, out, FAMILIES)
    mark_current(__file__)


if __name__ == "__main__":
    main()
