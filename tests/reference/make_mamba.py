"""Tiny random Mamba checkpoints, with inputs, caches and the outputs of transformers, and what it generates with them.

    python make_mamba.py OUTDIR

Writes OUTDIR/<class>_<config>_<seed>/ as make_decoders.py writes its folders; generation.safetensors in a folder
holds generate calls as make_generation.py records them.
"""

import os
import sys

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

from checkpoints import call, folder_of, ids_for, padded, randomize, record_generation, saved

import torch
import transformers
from make_generation import cases
from transformers import DynamicCache
from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

BASE = dict(vocab_size=61, hidden_size=32, state_size=4, num_hidden_layers=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
CONFIGS = {
    "plain": dict(),
    "changed": dict(state_size=3, conv_kernel=3, expand=3, time_step_rank=5, use_bias=True, use_conv_bias=False,
                    hidden_act="gelu", residual_in_fp32=False, layer_norm_epsilon=1e-3, num_hidden_layers=3,
                    tie_word_embeddings=False),
}


def make_calls(model, config, folder, seed):
    file = lambda name: os.path.join(folder, f"io_{name}.safetensors")
    for side, length in (("left", 7), ("right", 7), ("left", 2)):
        ids, mask = ids_for(config, (3, length), seed), padded((3, length), side)
        cache = call(model, file(f"{side}{length}_prefill"), {"input_ids": ids, "attention_mask": mask}).cache
        for step in range(5):
            more = ids_for(config, (3, 1), 50 + seed + step)
            cache = call(model, file(f"{side}{length}_decode{step}"), {"input_ids": more, "cache": cache}).cache
    ids = ids_for(config, (1, 5), seed)
    call(model, file("bare"), {"input_ids": ids})
    call(model, file("one"), {"input_ids": ids[:, :1]})
    call(model, file("long"), {"input_ids": ids_for(config, (2, 70), seed)})
    call(model, file("no_cache"), {"input_ids": ids}, {"use_cache": False})
    empty = call(model, file("empty_cache"), {"input_ids": ids, "cache": DynamicCache(config=config)})
    call(model, file("given_cache_unused"), {"input_ids": ids[:, :1], "cache": empty.cache}, {"use_cache": False})
    call(model, file("recorded"), {"input_ids": ids}, {"output_hidden_states": True})
    call(model, file("tuple"), {"input_ids": ids}, {"return_dict": False, "use_cache": False})
    embeds = torch.randn(2, 6, config.hidden_size, generator=torch.Generator().manual_seed(5))
    call(model, file("embeds"), {"inputs_embeds": embeds, "attention_mask": padded((2, 6), "left")})
    if hasattr(model, "lm_head"):
        call(model, file("keep_last"), {"input_ids": ids}, {"logits_to_keep": 2})


def make_case(out, cls, name, seed, dtype=torch.float32):
    model = cls(transformers.MambaConfig(**{**BASE, **CONFIGS[name]})).eval()
    randomize(model, 10 * seed + 5, 0.15)
    folder = folder_of(out, model, name, seed, dtype)
    model = saved(model, folder, dtype)
    register_cache_pytrees_for_model(model)
    make_calls(model, model.config, folder, seed)
    if seed == 0 and hasattr(model, "lm_head"):
        record_generation(os.path.join(folder, "generation.safetensors"), cases(model))


def main():
    for name in CONFIGS:
        for seed in range(2):
            make_case(sys.argv[1], transformers.MambaForCausalLM, name, seed)
        make_case(sys.argv[1], transformers.MambaModel, name, 0)
    make_case(sys.argv[1], transformers.MambaForCausalLM, "plain", 9, torch.bfloat16)
    mark_current(__file__)


if __name__ == "__main__":
    main()
