"""Tiny random checkpoints of the models of speech, with inputs and the outputs of transformers.

    python make_speech.py OUTDIR

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

BASE = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, conv_dim=[8, 10, 12],
            conv_stride=[3, 2, 2], conv_kernel=[5, 3, 2], num_conv_pos_embeddings=6, num_conv_pos_embedding_groups=4,
            vocab_size=19, classifier_proj_size=14, num_labels=5)
CODE = dict(tdnn_dim=[12, 10], tdnn_kernel=[3, 2], tdnn_dilation=[1, 2], xvector_output_dim=9, codevector_dim=12,
            num_codevectors_per_group=7, num_codevector_groups=3, proj_codevector_dim=11)
STABLE = dict(feat_extract_norm="layer", do_stable_layer_norm=True, conv_bias=True, num_conv_pos_embeddings=5,
              feat_extract_activation="relu", hidden_act="relu", layer_norm_eps=1e-3, use_weighted_layer_sum=True,
              mask_time_prob=0.0, num_labels=1)
HEADS = ["Model", "ForCTC", "ForSequenceClassification"]

# model type: (prefix of the classes, heads, {config name: changes to BASE})
FAMILIES = {
    "wav2vec2": ("Wav2Vec2", [*HEADS, "ForAudioFrameClassification", "ForXVector", "ForPreTraining"], {
        "plain": dict(CODE),
        "stable": dict(STABLE, **CODE, adapter_attn_dim=7),
        "adapter": dict(add_adapter=True, output_hidden_size=16, num_adapter_layers=2, adapter_stride=2,
                        apply_spec_augment=False),
    }),
    "hubert": ("Hubert", HEADS, {
        "plain": dict(feat_proj_layer_norm=False),
        "stable": dict(STABLE),
    }),
}
# name: (batch, samples)
SHAPES = {"b1": (1, 17), "b2": (2, 60), "b3": (3, 97)}


def inputs_for(config, shape, seed, masked=True):
    generator = torch.Generator().manual_seed(1000 + seed)
    values = torch.randn(shape, generator=generator)
    mask = torch.ones(shape, dtype=torch.int64)
    for row in range(1, shape[0]):
        mask[row, shape[1] - 10 * row:] = 0
    return {"input_values": values * mask, "attention_mask": mask} if masked else {"input_values": values}


def make_case(out, family, head, config_name, seed, dtype=torch.float32):
    prefix, _, configs = FAMILIES[family]
    cls = getattr(transformers, prefix + head)
    model = cls(cls.config_class(**{**BASE, **configs[config_name]})).eval()
    randomize(model, 100 * seed + len(family))
    folder = folder_of(os.path.join(out, family), model, config_name, seed, dtype)
    model = saved(model, folder, dtype)
    call = lambda name, inputs, flags=None: record(model, os.path.join(folder, f"io_{name}.safetensors"), inputs, flags)
    as_dtype = lambda inputs: {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
    for name, shape in SHAPES.items():
        if head == "ForXVector":
            shape = (shape[0], max(shape[1], 90))
        call(name, as_dtype(inputs_for(model.config, shape, seed)))
        call(f"{name}_unmasked", as_dtype(inputs_for(model.config, shape, seed, masked=False)))
    if dtype == torch.float32:
        inputs = inputs_for(model.config, SHAPES["b3"], seed)
        with eager_attention(model):
            call("recorded", inputs, RECORDED)
        if head == "Model" and model.config.mask_time_prob > 0:
            frames = model(**inputs).last_hidden_state.shape[1]
            if not getattr(model.config, "add_adapter", False):
                call("time_mask", {**inputs, "mask_time_indices": torch.arange(3 * frames).reshape(3, frames) % 3 == 0})


def make_family(out, family):
    _, heads, configs = FAMILIES[family]
    for config_name, changes in configs.items():
        for seed in range(2):
            for head in heads if seed == 0 else heads[:2]:
                if not changes.get("add_adapter") or head in ("Model", "ForCTC"):
                    make_case(out, family, head, config_name, seed)
    make_case(out, family, heads[1], next(iter(configs)), 9, torch.bfloat16)


def main():
    out = sys.argv[1]
    make_families(make_family, out, FAMILIES)
    mark_current(__file__)


if __name__ == "__main__":
    main()
