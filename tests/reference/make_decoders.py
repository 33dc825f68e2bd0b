"""Tiny random checkpoints of the decoder-only families, with inputs, caches and the outputs of transformers.

    python make_decoders.py OUTDIR

Writes OUTDIR/<family>/<class>_<config>_<seed>/, the folder of a checkpoint (checkpoints.py), with io_<call>.safetensors as
`call` writes it.
"""

import copy
import json
import os
import sys

from reference_folder import exit_if_current, mark_current

if __name__ == "__main__":
    exit_if_current(__file__)

from checkpoints import (RECORDED, call, eager_attention, folder_of, ids_for, make_families, padded, positions_of,
                         randomize, saved)

import torch
import transformers
from safetensors.torch import save_file
from torch.utils import _pytree as pytree
from transformers import DynamicCache, StaticCache
from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

SCALE = 0.15
BASE = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
HEADS = ["Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]

# family: (prefix of the classes, heads, {config name: changes to BASE})
FAMILIES = {
    "llama": ("Llama", HEADS, {
        "plain": dict(),
        "biased": dict(num_key_value_heads=4, head_dim=16, attention_bias=True, mlp_bias=True, hidden_act="gelu",
                       tie_word_embeddings=True, rms_norm_eps=1e-3, num_labels=5,
                       rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=3.0)),
        "three": dict(num_attention_heads=6, num_key_value_heads=1, hidden_size=48, num_hidden_layers=3, num_labels=1,
                      rope_parameters=dict(rope_type="llama3", rope_theta=1000.0, factor=8.0, low_freq_factor=1.0,
                                           high_freq_factor=4.0, original_max_position_embeddings=16)),
    }),
    "mistral": ("Mistral", HEADS, {
        "window": dict(sliding_window=4, num_labels=3),
        "plain": dict(sliding_window=None, head_dim=16, tie_word_embeddings=True,
                      rope_parameters=dict(rope_type="dynamic", rope_theta=100.0, factor=2.0)),
    }),
    "qwen2": ("Qwen2", HEADS, {
        "mixed": dict(use_sliding_window=True, sliding_window=4, max_window_layers=1, num_labels=3),
        "plain": dict(use_sliding_window=False, tie_word_embeddings=True, hidden_act="gelu"),
    }),
    "qwen3": ("Qwen3", HEADS, {
        "mixed": dict(head_dim=12, layer_types=["sliding_attention", "full_attention"], use_sliding_window=True,
                      sliding_window=5, attention_bias=True),
        "plain": dict(head_dim=16, tie_word_embeddings=True),
    }),
    "phi3": ("Phi3", HEADS[:4], {
        "long": dict(original_max_position_embeddings=8, sliding_window=6,
                     rope_parameters=dict(rope_type="longrope", rope_theta=100.0, short_factor=[1.0, 1.5, 2.0, 3.0],
                                          long_factor=[2.0, 3.0, 4.0, 6.0])),
        "partial": dict(num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True,
                        rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5)),
    }),
    "gemma": ("Gemma", HEADS[:4], {
        "plain": dict(head_dim=8, num_labels=3),
        "biased": dict(head_dim=16, attention_bias=True, tie_word_embeddings=False, hidden_act="gelu"),
    }),
    "gemma2": ("Gemma2", HEADS[:4], {
        "plain": dict(head_dim=8, sliding_window=4, query_pre_attn_scalar=5, attn_logit_softcapping=2.0,
                      final_logit_softcapping=3.0),
        "uncapped": dict(head_dim=16, sliding_window=6, query_pre_attn_scalar=16, attn_logit_softcapping=None,
                         final_logit_softcapping=None, attention_bias=True, tie_word_embeddings=False,
                         layer_types=["full_attention", "sliding_attention"]),
    }),
    "gemma3_text": ("Gemma3", ["TextModel", "ForCausalLM", "TextForSequenceClassification"], {
        "plain": dict(head_dim=8, sliding_window=4, query_pre_attn_scalar=7, num_hidden_layers=3,
                      layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        "scaled": dict(head_dim=16, sliding_window=5, query_pre_attn_scalar=16, final_logit_softcapping=4.0,
                       rope_parameters=dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=900.0),
                                            sliding_attention=dict(rope_type="default", rope_theta=50.0)),
                       layer_types=["full_attention", "sliding_attention"], attention_bias=True),
    }),
    "olmo2": ("Olmo2", HEADS[:3], {
        "plain": dict(),
        "biased": dict(attention_bias=True, num_key_value_heads=1, tie_word_embeddings=True, rms_norm_eps=1e-3),
    }),
    "granite": ("Granite", HEADS[:2], {
        "plain": dict(embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.7, logits_scaling=5.0),
        "biased": dict(attention_bias=True, mlp_bias=True, attention_multiplier=0.5, tie_word_embeddings=True),
    }),
    "smollm3": ("SmolLM3", HEADS, {
        "plain": dict(no_rope_layer_interval=2, num_hidden_layers=3, mlp_bias=True),
        "window": dict(no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=4, attention_bias=True,
                       tie_word_embeddings=False),
    }),
    "starcoder2": ("Starcoder2", HEADS[:4], {
        "plain": dict(),
        "window": dict(sliding_window=4, use_bias=False, tie_word_embeddings=False, hidden_act="relu"),
    }),
    "gpt2": ("GPT2", ["Model", "LMHeadModel", *HEADS[2:]], {
        "plain": dict(num_labels=3),
        "scaled": dict(num_attention_heads=2, max_position_embeddings=40, n_inner=24, activation_function="relu",
                       scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False, tie_word_embeddings=False),
    }),
    "gpt_neox": ("GPTNeoX", HEADS, {
        "parallel": dict(rope_parameters=dict(rope_type="default", rope_theta=100.0, partial_rotary_factor=0.5)),
        "serial": dict(use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True, hidden_act="relu"),
    }),
    "opt": ("OPT", ["Model", "ForCausalLM", "ForSequenceClassification", "ForQuestionAnswering"], {
        "before": dict(ffn_dim=48),
        "after": dict(ffn_dim=24, do_layer_norm_before=False, word_embed_proj_dim=20, enable_bias=False,
                      activation_function="gelu", tie_word_embeddings=False),
    }),
    "phi": ("Phi", HEADS[:4], {
        "plain": dict(num_labels=3),
        "normed": dict(qk_layernorm=True, num_key_value_heads=4, tie_word_embeddings=True, hidden_act="relu",
                       rope_parameters=dict(rope_type="linear", rope_theta=300.0, factor=2.0,
                                            partial_rotary_factor=0.25)),
    }),
}
SEEDS = 3

# rope type: parameters for heads of 16 dimensions with max_position_embeddings 64
MOE = dict(num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40)
FAMILIES.update({
    "mixtral": ("Mixtral", HEADS, {
        "plain": dict(num_local_experts=4),
        "window": dict(num_local_experts=3, num_experts_per_tok=1, sliding_window=4, head_dim=16, tie_word_embeddings=True,
                       hidden_act="gelu"),
    }),
    "qwen2_moe": ("Qwen2Moe", HEADS, {
        "plain": dict(**MOE, num_experts=4),
        "mixed": dict(**{**MOE, "num_experts_per_tok": 3}, num_experts=6, norm_topk_prob=True, mlp_only_layers=[1],
                      use_sliding_window=True, sliding_window=4, qkv_bias=False, tie_word_embeddings=True),
    }),
    "qwen3_moe": ("Qwen3Moe", HEADS, {
        "plain": dict(**MOE, num_experts=4, head_dim=16),
        "mixed": dict(**MOE, num_experts=6, norm_topk_prob=True, decoder_sparse_step=2, use_sliding_window=True,
                      sliding_window=4, attention_bias=True, tie_word_embeddings=True),
    }),
    "gpt_oss": ("GptOss", HEADS[:4], {
        "plain": dict(num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=4),
        "full": dict(num_local_experts=3, num_experts_per_tok=1, head_dim=16, sliding_window=6, swiglu_limit=0.2,
                     attention_bias=False, layer_types=["full_attention", "sliding_attention"],
                     rope_parameters=dict(rope_type="default", rope_theta=500.0)),
    }),
})

ROPES = {
    "default": dict(),
    "linear": dict(factor=2.5),
    "dynamic": dict(factor=1.7),
    "yarn": dict(factor=4.0, original_max_position_embeddings=16),
    "yarn_options": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0, beta_slow=2.0,
                         mscale=0.7, mscale_all_dim=0.9, truncate=False),
    "yarn_attention": dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=32, attention_factor=0.8),
    "longrope": dict(short_factor=[1.0 + i / 7 for i in range(8)], long_factor=[2.0 + i for i in range(8)],
                     original_max_position_embeddings=16),
    "longrope_options": dict(rope_type="longrope", short_factor=[1.0] * 8, long_factor=[1.0 + i / 3 for i in range(8)],
                             original_max_position_embeddings=20, factor=3.0, attention_factor=1.2),
    "llama3": dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
    "proportional": dict(partial_rotary_factor=0.5, factor=2.0),
}


def static_mask(mask, queries, length):
    """What generate passes to a model with a static cache: bool [batch, 1, queries, length]."""
    batch, total = mask.shape
    allowed = torch.zeros(batch, 1, queries, length, dtype=torch.bool)
    for q in range(queries):
        position = total - queries + q
        allowed[:, 0, q, : position + 1] = mask[:, : position + 1].bool()
    return allowed


def generative_calls(model, config, folder, seed, name):
    """Prefill and decode as generate does them, and other ways to call a model with a cache."""
    file = lambda call_name: os.path.join(folder, f"io_{name}_{call_name}.safetensors")
    for side in ("left", "right"):
        shape = (3, 7)
        ids, mask = ids_for(config, shape, seed), padded(shape, side)
        positions = positions_of(mask)
        prefill = call(model, file(f"{side}_prefill"),
                       {"input_ids": ids, "attention_mask": mask, "position_ids": positions})
        cache = prefill.cache
        for step, queries in enumerate((1, 3)):
            more = ids_for(config, (3, queries), 50 + seed + step)
            mask = torch.cat([mask, torch.ones(3, queries, dtype=torch.int64)], -1)
            inputs = {"input_ids": more, "attention_mask": mask, "position_ids": positions_of(mask)[:, -queries:],
                      "cache": cache}
            cache = call(model, file(f"{side}_decode{step}"), inputs).cache
    ids = ids_for(config, (1, 5), seed)
    call(model, file("bare"), {"input_ids": ids})
    call(model, file("no_cache"), {"input_ids": ids}, {"use_cache": False})
    empty = call(model, file("empty_cache"), {"input_ids": ids, "cache": DynamicCache(config=config)})
    call(model, file("decode_without_positions"), {"input_ids": ids[:, :1], "cache": empty.cache})
    call(model, file("given_cache_unused"), {"input_ids": ids[:, :2], "cache": empty.cache}, {"use_cache": False})


def other_calls(model, config, folder, seed):
    file = lambda call_name: os.path.join(folder, f"io_other_{call_name}.safetensors")
    ids = ids_for(config, (2, 6), seed)
    width = model.get_input_embeddings().embedding_dim
    embeds = torch.randn(2, 6, width, generator=torch.Generator().manual_seed(5))
    call(model, file("embeds"), {"inputs_embeds": embeds, "attention_mask": torch.ones(2, 6, dtype=torch.int64)})
    packed = torch.tensor([[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 2, 3]])
    call(model, file("packed"), {"input_ids": ids, "position_ids": packed}, {"use_cache": False})
    call(model, file("lazy_cache"), {"input_ids": ids, "cache": DynamicCache()})
    call(model, file("tuple"), {"input_ids": ids}, {"return_dict": False, "use_cache": False})
    call(model, file("keep_last"), {"input_ids": ids}, {"logits_to_keep": 2})
    call(model, file("keep_some"), {"input_ids": ids, "logits_to_keep": torch.tensor([4, 0, 4])})
    call(model, file("keep_each"), {"input_ids": ids, "logits_to_keep": torch.tensor([[1, 5], [0, 0]])})


def static_calls(model, config, folder, seed):
    file = lambda call_name: os.path.join(folder, f"io_static_{call_name}.safetensors")
    ids, mask = ids_for(config, (2, 6), seed), padded((2, 6), "left")
    positions = positions_of(mask)
    cache = StaticCache(config=config, max_cache_len=12)
    cache = call(model, file("prefill"), {"input_ids": ids, "attention_mask": mask, "position_ids": positions,
                                          "cache": cache}).cache
    for step, queries in enumerate((1, 2)):
        more = ids_for(config, (2, queries), 70 + step)
        mask = torch.cat([mask, torch.ones(2, queries, dtype=torch.int64)], -1)
        inputs = {"input_ids": more, "position_ids": positions_of(mask)[:, -queries:], "cache": cache}
        call(model, file(f"decode{step}_prepared"), {**inputs, "attention_mask": static_mask(mask, queries, 12)})
        cache = call(model, file(f"decode{step}"), {**inputs, "attention_mask": mask}).cache


def make_case(out, family, head, config_name, changes, seed, dtype=torch.float32):
    prefix = FAMILIES[family][0]
    cls = getattr(transformers, prefix + head, None) or getattr(transformers, head)
    config = cls.config_class(**{**BASE, **changes})
    model = cls(config).eval()
    randomize(model, 100 * seed + len(family), SCALE)
    folder = folder_of(os.path.join(out, family), model, config_name, seed, dtype)
    model = saved(model, folder, dtype)
    register_cache_pytrees_for_model(model)
    config = model.config
    has_cache = head in FAMILIES[family][1][:2]
    file = lambda name: os.path.join(folder, f"io_{name}.safetensors")
    if has_cache:
        generative_calls(model, config, folder, seed, "default")
    for shape in ((1, 1), (2, 7), (3, 12)):
        inputs = {"input_ids": ids_for(config, shape, seed), "attention_mask": padded(shape, "right")}
        call(model, file(f"b{shape[0]}s{shape[1]}"), inputs)
    if dtype == torch.float32:
        with eager_attention(model):
            call(model, file("recorded"), inputs, RECORDED)
            if has_cache and seed == 0:
                positions = positions_of(inputs["attention_mask"])
                cache = call(model, file("recorded_prefill"), {**inputs, "position_ids": positions}, RECORDED).cache
                mask = torch.cat([inputs["attention_mask"], torch.ones(3, 2, dtype=torch.int64)], -1)
                call(model, file("recorded_decode"),
                     {"input_ids": ids_for(config, (3, 2), seed), "attention_mask": mask, "cache": cache}, RECORDED)
    return model


def make_ropes(out):
    """Every rope type on both sides of the lengths at which it changes."""
    for name, parameters in ROPES.items():
        parameters = {"rope_type": name, "rope_theta": 100.0, **parameters}
        config = transformers.LlamaConfig(**{**BASE, "hidden_size": 64, "rope_parameters": parameters})
        model = transformers.LlamaModel(config).eval()
        randomize(model, 7, SCALE)
        folder = os.path.join(out, "ropes", name)
        model = saved(model, folder)
        for length in (5, 16, 17, 21, 64, 65, 90):
            # A model of its own for each: the reference remembers lengths.
            fresh = copy.deepcopy(model)
            call(fresh, os.path.join(folder, f"io_s{length}.safetensors"), {"input_ids": ids_for(config, (2, length), 3)},
                 {"use_cache": False})


def make_old_configs(out):
    """The same models with configs as older versions wrote them: what they compute is the reference's reading of them."""
    source = os.path.join(out, "llama", "LlamaForCausalLM_plain_0")
    variants = {
        "rope_theta": dict(rope_theta=77.0),
        "rope_scaling_type": dict(rope_theta=50.0, rope_scaling=dict(type="linear", factor=2.0)),
        "rope_scaling_and_parameters": dict(rope_scaling=dict(rope_type="dynamic", factor=2.0),
                                            rope_parameters=dict(rope_type="default", rope_theta=9.0)),
        "scaling_null": dict(rope_scaling=None, rope_theta=33.0),
        "llama3_top_level_length": dict(
            original_max_position_embeddings=8,
            rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                              original_max_position_embeddings=16)),
        "partial_unread": dict(partial_rotary_factor=0.5),
        "kv_heads_null": dict(num_key_value_heads=2, head_dim=None),
    }
    for name, changes in variants.items():
        folder = os.path.join(out, "old_configs", name)
        os.makedirs(folder, exist_ok=True)
        os.link(os.path.join(source, "model.safetensors"), os.path.join(folder, "model.safetensors"))
        with open(os.path.join(source, "config.json")) as file:
            config = json.load(file)
        config.pop("rope_parameters")
        config.update(changes)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        model = transformers.LlamaForCausalLM.from_pretrained(folder).eval()
        call(model, os.path.join(folder, "io_s20.safetensors"), {"input_ids": ids_for(model.config, (2, 20), 3)},
             {"use_cache": False})


def make_caches(out):
    """Caches of every class with their tree specs; what is in them follows from the position."""
    folder = os.path.join(out, "caches")
    os.makedirs(folder, exist_ok=True)
    llama = transformers.LlamaConfig(**BASE)
    mistral = transformers.MistralConfig(**BASE, sliding_window=4)
    states = lambda length, start: torch.arange(start, start + 2 * 2 * length * 3).float().reshape(2, 2, length, 3)
    register_cache_pytrees_for_model(transformers.LlamaModel(llama))
    specs = {}

    def record(name, cache):
        leaves, spec = pytree.tree_flatten(cache)
        specs[name] = pytree.treespec_dumps(spec)
        tensors = {str(i): leaf.contiguous().clone() for i, leaf in enumerate(leaves)}
        save_file(tensors or {"none": torch.zeros(0)}, os.path.join(folder, name + ".safetensors"))

    def fill(cache, lengths):
        for length in lengths:
            for layer in range(2):
                cache.update(states(length, 10 * layer), states(length, 500 + 10 * layer), layer)
        return cache

    makers = {"dynamic": lambda: DynamicCache(config=llama), "lazy": lambda: DynamicCache(),
              "sliding": lambda: DynamicCache(config=mistral),
              "static": lambda: StaticCache(config=llama, max_cache_len=9)}
    for name, make in makers.items():
        for steps in ((), (2,), (2, 1), (2, 1, 4)):
            record(name + "".join(f"_{n}" for n in steps), fill(make(), steps))
    both = transformers.EncoderDecoderCache(DynamicCache(config=llama), DynamicCache(config=llama))
    record("encoder_decoder", both)
    fill(both.self_attention_cache, (2,))
    fill(both.cross_attention_cache, (3,))
    both.is_updated = {0: True, 1: True}
    record("encoder_decoder_2", both)
    record("encoder_decoder_static", transformers.EncoderDecoderCache(
        fill(StaticCache(config=llama, max_cache_len=5), (2,)), StaticCache(config=llama, max_cache_len=7)))
    with open(os.path.join(folder, "specs.json"), "w") as file:
        json.dump(specs, file)


def make_family(out, family):
    _, heads, configs = FAMILIES[family]
    # The bare model and the language model have a cache; one of them has more seeds.
    reseeded = heads[:2] if family == "llama" else heads[1:2]
    for config_name, changes in configs.items():
        for seed in range(SEEDS if family == "llama" else 2):
            for head in heads if seed == 0 else reseeded:
                model = make_case(out, family, head, config_name, changes, seed)
                if seed == 0 and head == heads[1]:
                    folder = os.path.join(out, family, f"{type(model).__name__}_{config_name}_0")
                    other_calls(model, model.config, folder, seed)
                    if not any(layer.is_sliding for layer in DynamicCache(config=model.config).layers):
                        static_calls(model, model.config, folder, seed)
    first = next(iter(configs))
    make_case(out, family, heads[1], first, configs[first], 9, torch.bfloat16)


def main():
    out = sys.argv[1]
    make_families(make_family, out, FAMILIES)
    make_ropes(out)
    make_old_configs(out)
    make_caches(out)
    mark_current(__file__)


if __name__ == "__main__":
    main()
