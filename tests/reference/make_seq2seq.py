"""Tiny random checkpoints of the encoder-decoder families, with inputs, caches and the outputs of transformers.

    python make_seq2seq.py OUTDIR

Writes OUTDIR/<family>/<class>_<config>_<seed>/, the folder of a checkpoint (checkpoints.py), with a file for each call as
`call` writes it: io_<call>.safetensors of the model, encoder_<call>.safetensors of its encoder alone.
"""

import os
import sys

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

from checkpoints import RECORDED, call, eager_attention, folder_of, ids_for, make_families, padded, randomize, saved

import torch
import transformers
from transformers import DynamicCache, EncoderDecoderCache, StaticCache
from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

T5 = dict(vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
          relative_attention_max_distance=12, decoder_start_token_id=0)
T5_HEADS = ["Model", "ForConditionalGeneration", "EncoderModel", "ForSequenceClassification", "ForTokenClassification",
            "ForQuestionAnswering"]

BART = dict(vocab_size=61, d_model=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=48, decoder_ffn_dim=40,
            encoder_attention_heads=4, decoder_attention_heads=2, max_position_embeddings=24)
MARIAN = dict(pad_token_id=60, decoder_start_token_id=60)
BART_HEADS = ["Model", "ForConditionalGeneration", "ForCausalLM", "ForSequenceClassification", "ForQuestionAnswering"]

NLLB = {**BART, "num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 1}
WHISPER = dict(vocab_size=61, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=48,
               decoder_ffn_dim=40, encoder_attention_heads=4, decoder_attention_heads=2, max_source_positions=9,
               max_target_positions=24, pad_token_id=1, bos_token_id=2, eos_token_id=2, decoder_start_token_id=3,
               classifier_proj_size=16)

# family: (prefix of the classes, changes to every config, heads, {config name: changes})
FAMILIES = {
    "t5": ("T5", T5, T5_HEADS, {
        "plain": dict(),
        "gated": dict(feed_forward_proj="gated-gelu", num_decoder_layers=3, tie_word_embeddings=False, d_kv=16,
                      layer_norm_epsilon=1e-3),
        "silu": dict(feed_forward_proj="gated-silu", num_layers=3, num_decoder_layers=1, num_heads=2,
                     relative_attention_num_buckets=32, relative_attention_max_distance=128),
    }),
    "mt5": ("MT5", T5, T5_HEADS, {
        "plain": dict(),
        "relu": dict(feed_forward_proj="relu", num_decoder_layers=3, tie_word_embeddings=False, d_kv=16),
    }),
    "bart": ("Bart", BART, BART_HEADS, {
        "plain": dict(),
        "scaled": dict(scale_embedding=True, encoder_layers=3, activation_function="relu", tie_word_embeddings=False,
                       num_labels=5),
    }),
    "mbart": ("MBart", BART, BART_HEADS, {
        "plain": dict(),
        "scaled": dict(scale_embedding=True, encoder_layers=3, activation_function="relu", tie_word_embeddings=False),
    }),
    "marian": ("Marian", {**BART, **MARIAN}, ["Model", "MTModel", "ForCausalLM"], {
        "plain": dict(),
        "scaled": dict(scale_embedding=True, encoder_layers=3, activation_function="silu", tie_word_embeddings=False),
        "apart": dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=67),
    }),
    "m2m_100": ("M2M100", BART, ["Model", "ForConditionalGeneration"], {
        "plain": dict(),
        "unscaled": dict(scale_embedding=False, encoder_layers=3, activation_function="gelu", tie_word_embeddings=False),
        "short": dict(max_position_embeddings=5),  # the table of positions grows
    }),
    "nllb-moe": ("NllbMoe", NLLB, ["Model", "ForConditionalGeneration"], {
        "plain": dict(),
        "dropping": dict(moe_eval_capacity_token_fraction=0.3, normalize_router_prob_before_dropping=True,
                         batch_prioritized_routing=True, router_bias=True, moe_token_dropout=0.0, num_experts=3,
                         encoder_sparse_step=1, decoder_sparse_step=2, router_ignore_padding_tokens=True,
                         scale_embedding=False),
        "capacity": dict(moe_eval_capacity_token_fraction=-1.0, expert_capacity=3, decoder_sparse_step=0,
                         output_router_logits=True),
    }),
    "whisper": ("Whisper", WHISPER, ["Model", "ForConditionalGeneration", "ForCausalLM", "ForAudioClassification"], {
        "plain": dict(),
        "weighted": dict(encoder_layers=3, decoder_layers=1, activation_function="relu", use_weighted_layer_sum=True,
                         scale_embedding=True, tie_word_embeddings=False, num_labels=4),
    }),
}
WITH_CACHE = ("Model", "ForConditionalGeneration", "MTModel")


def file_of(folder, name, prefix="io"):
    return os.path.join(folder, f"{prefix}_{name}.safetensors")


def with_eos(ids, eos):
    """One end-of-sequence token in each row, at different places."""
    ids = ids.masked_fill(ids == eos, eos + 3)
    for row in range(ids.shape[0]):
        ids[row, ids.shape[1] - 1 - row % ids.shape[1]] = eos
    return ids


def encoder_inputs(config, shape, seed, side="right"):
    if config.model_type == "whisper":
        generator = torch.Generator().manual_seed(seed + shape[1])
        return {"input_features": torch.randn(shape[0], config.num_mel_bins, 2 * config.max_source_positions,
                                              generator=generator).to(config.dtype)}
    ids = ids_for(config, shape, seed)
    return {"input_ids": ids, "attention_mask": padded(shape, side)}


def decoder_vocabulary(config, ids):
    return ids % getattr(config, "decoder_vocab_size", config.vocab_size)


def new_cache(model):
    config = model.get_decoder().config
    return EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))


def generative_calls(model, config, folder, seed):
    """The encoder, then the decoder as generate calls it, and other ways to call a model with a cache."""
    for side in ("left", "right"):
        inputs = encoder_inputs(config, (3, 9), seed, side)
        encoded = call(model.get_encoder(), file_of(folder, side, "encoder"), inputs)
        shape = (3, 4)
        mask = padded(shape, side)
        common = {"encoder_outputs": encoded}
        if "attention_mask" in inputs and "input_ids" in inputs:
            common["attention_mask"] = inputs["attention_mask"]
        ids = decoder_vocabulary(config, ids_for(config, shape, seed + 1))
        cache = call(model, file_of(folder, f"{side}_prefill"),
                     {**common, "decoder_input_ids": ids, "decoder_attention_mask": mask, "cache": new_cache(model)}).cache
        for step, queries in enumerate((1, 3)):
            more = decoder_vocabulary(config, ids_for(config, (3, queries), 50 + seed + step))
            mask = torch.cat([mask, torch.ones(3, queries, dtype=torch.int64)], -1)
            cache = call(model, file_of(folder, f"{side}_decode{step}"),
                         {**common, "decoder_input_ids": more, "decoder_attention_mask": mask, "cache": cache}).cache
    ids = decoder_vocabulary(config, ids_for(config, (3, 1), seed + 2))
    first = call(model, file_of(folder, "first_token"), {**common, "decoder_input_ids": ids})
    step = {**common, "decoder_input_ids": ids, "cache": first.cache}
    call(model, file_of(folder, "second_token"), step)
    call(model, file_of(folder, "lazy_cache"),
         {**step, "cache": EncoderDecoderCache(DynamicCache(), DynamicCache())})
    if config.model_type != "whisper":  # its layers would not read the cache
        call(model, file_of(folder, "given_cache_unused"), step, {"use_cache": False})
    return common


def static_calls(model, config, folder, common):
    source = common["encoder_outputs"][0].shape[1]
    decoder = model.get_decoder().config
    cache = EncoderDecoderCache(StaticCache(config=decoder, max_cache_len=8), StaticCache(config=decoder, max_cache_len=source))
    for step, queries in enumerate((3, 1, 2)):
        ids = decoder_vocabulary(config, ids_for(config, (3, queries), 70 + step))
        cache = call(model, file_of(folder, f"static{step}"), {**common, "decoder_input_ids": ids, "cache": cache}).cache


def other_calls(model, config, folder, seed):
    inputs = encoder_inputs(config, (2, 6), seed)
    ids = decoder_vocabulary(config, ids_for(config, (2, 4), seed + 3))
    call(model, file_of(folder, "no_cache"), {**inputs, "decoder_input_ids": ids}, {"use_cache": False})
    call(model, file_of(folder, "tuple"), {**inputs, "decoder_input_ids": ids}, {"return_dict": False, "use_cache": False})
    generator = torch.Generator().manual_seed(5)
    embeds = lambda length: torch.randn(2, length, config.d_model, generator=generator)
    if "input_ids" in inputs:
        call(model, file_of(folder, "embeds"), {"inputs_embeds": embeds(6), "decoder_inputs_embeds": embeds(4)})
        call(model, file_of(folder, "bare"), {"input_ids": inputs["input_ids"][:1], "decoder_input_ids": ids[:1]})
        if config.model_type != "nllb-moe":  # reads outputs by name
            encoded = model.get_encoder()(**inputs)
            call(model, file_of(folder, "encoded_tuple"), {"encoder_outputs": (encoded[0],), "decoder_input_ids": ids})


def plain_calls(model, config, head, folder, seed):
    """Every head at several shapes, and with what its layers leave behind."""
    for shape, target in (((1, 1), 1), ((2, 7), 3), ((3, 12), 5)):
        inputs = encoder_inputs(config, shape, seed)
        if head == "ForSequenceClassification":
            inputs["input_ids"] = with_eos(inputs["input_ids"], config.eos_token_id)
        elif head not in ("EncoderModel", "ForTokenClassification", "ForAudioClassification"):
            target_shape = (shape[0], target)
            inputs["decoder_input_ids"] = decoder_vocabulary(config, ids_for(config, target_shape, seed + 1))
            inputs["decoder_attention_mask"] = padded(target_shape, "right")
        call(model, file_of(folder, f"b{shape[0]}s{shape[1]}"), inputs)
    shifts = head == "Model" and config.model_type in ("bart", "mbart")
    if shifts or head in ("ForQuestionAnswering", "ForSequenceClassification"):
        call(model, file_of(folder, "shifted"), {"input_ids": inputs["input_ids"]})
    return inputs


def decoder_calls(model, config, folder, seed):
    """The decoder alone, and with the states of some encoder."""
    for shape in ((1, 1), (2, 7), (3, 12)):
        ids, mask = ids_for(config, shape, seed), padded(shape, "left")
        cache = call(model, file_of(folder, f"b{shape[0]}s{shape[1]}"), {"input_ids": ids, "attention_mask": mask}).cache
        mask = torch.cat([mask, torch.ones(shape[0], 2, dtype=torch.int64)], -1)
        call(model, file_of(folder, f"b{shape[0]}s{shape[1]}_decode"),
             {"input_ids": ids_for(config, (shape[0], 2), seed + 1), "attention_mask": mask, "cache": cache})
    states = torch.randn(2, 5, config.d_model, generator=torch.Generator().manual_seed(3))
    attended = {"input_ids": ids_for(config, (2, 4), seed), "encoder_hidden_states": states}
    if config.model_type == "whisper":
        attended["encoder_outputs"] = (attended.pop("encoder_hidden_states"),)
    else:
        attended["encoder_attention_mask"] = padded((2, 5), "right")
    cache = call(model, file_of(folder, "attended"), attended).cache
    call(model, file_of(folder, "attended_decode"), {**attended, "input_ids": ids_for(config, (2, 1), seed), "cache": cache})
    if config.model_type != "whisper":
        call(model, file_of(folder, "keep_last"), {"input_ids": attended["input_ids"]},
             {"logits_to_keep": 2, "use_cache": False})
    with eager_attention(model):
        call(model, file_of(folder, "recorded"), attended, RECORDED)
        call(model, file_of(folder, "recorded_alone"), {"input_ids": attended["input_ids"]}, RECORDED)


@torch.no_grad()
def make_case(out, family, head, config_name, changes, seed, dtype=torch.float32):
    prefix, base, heads, _ = FAMILIES[family]
    cls = getattr(transformers, prefix + head)
    config = cls.config_class(**{**base, **changes})
    model = cls(config).eval()
    randomize(model, 100 * seed + len(family), 0.15)
    folder = folder_of(os.path.join(out, family), model, config_name, seed, dtype)
    model = saved(model, folder, dtype)
    register_cache_pytrees_for_model(model)
    config = model.config
    if head == "ForCausalLM":
        decoder_calls(model, config, folder, seed)
        return
    inputs = plain_calls(model, config, head, folder, seed)
    if head in WITH_CACHE:
        common = generative_calls(model, config, folder, seed)
        if seed == 0:
            other_calls(model, config, folder, seed)
            static_calls(model, config, folder, common)
    if dtype == torch.float32 and seed == 0:
        with eager_attention(model):
            first = call(model, file_of(folder, "recorded"), inputs, RECORDED)
            if head in WITH_CACHE:
                ids = decoder_vocabulary(config, ids_for(config, (3, 2), seed))
                encoded = model.get_encoder()(**{k: v for k, v in inputs.items() if "decoder" not in k})
                call(model, file_of(folder, "recorded_decode"),
                     {"encoder_outputs": encoded, "decoder_input_ids": ids, "cache": first.cache}, RECORDED)


def make_family(out, family):
    _, _, heads, configs = FAMILIES[family]
    first = next(iter(configs))
    for config_name, changes in configs.items():
        for head in heads:
            make_case(out, family, head, config_name, changes, 0)
        make_case(out, family, heads[1], config_name, changes, 1)
    for dtype in (torch.bfloat16, torch.float16):
        make_case(out, family, heads[1], first, configs[first], 9, dtype)


def main():
    out = sys.argv[1]
    make_families(make_family, out, FAMILIES)
    mark_current(__file__)


if __name__ == "__main__":
    main()
