"""Tiny random checkpoints of the text encoders, with inputs and the outputs that transformers computes for them.

    python make_encoders.py OUTDIR

Writes OUTDIR/<model type>/<class>_<config>_<seed>/, the folder of a checkpoint (checkpoints.py), with
io_<call>.safetensors as `record` writes it. OUTDIR/old_configs/ has the same weights with configs as older versions wrote them.
"""

import json
import os
import sys

from reference_folder import exit_if_current, mark_current

if __name__ == "__main__":
    exit_if_current(__file__)

from checkpoints import RECORDED, eager_attention, folder_of, make_families, randomize, record, saved

import torch
import transformers

SHAPES = {"b1s1": (1, 1), "b2s7": (2, 7), "b3s12": (3, 12)}
BASE = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            max_position_embeddings=40, pad_token_id=0, bos_token_id=1, eos_token_id=2)
HEADS = ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
         "ForMultipleChoice"]
ROBERTA = {
    "plain": dict(pad_token_id=1, type_vocab_size=1, num_labels=3),
    "changed": dict(pad_token_id=4, type_vocab_size=2, layer_norm_eps=1e-3, hidden_act="relu", num_labels=1,
                    tie_word_embeddings=False, chunk_size_feed_forward=1),
}
LAYERS = dict(num_hidden_layers=3)

# model type: (prefix of the classes, heads, {config name: changes to BASE})
FAMILIES = {
    "roberta": ("Roberta", HEADS, ROBERTA),
    "xlm-roberta": ("XLMRoberta", HEADS, ROBERTA),
    "camembert": ("Camembert", HEADS, ROBERTA),
    "distilbert": ("DistilBert", HEADS, {
        "plain": dict(hidden_dim=48, num_labels=3),
        "changed": dict(hidden_dim=20, activation="relu", tie_word_embeddings=False, sinusoidal_pos_embds=True,
                        pad_token_id=2),
    }),
    "electra": ("Electra", [*HEADS, "ForPreTraining"], {
        "plain": dict(embedding_size=32, num_labels=3),
        "narrow": dict(embedding_size=20, summary_type="mean", summary_activation="tanh", hidden_act="relu",
                       tie_word_embeddings=False, type_vocab_size=3),
        "last": dict(embedding_size=20, summary_type="last", summary_use_proj=False, summary_activation=""),
    }),
    "mpnet": ("MPNet", HEADS, {
        "plain": dict(pad_token_id=1, num_labels=3),
        "changed": dict(pad_token_id=3, relative_attention_num_buckets=40, hidden_act="gelu_new",
                        tie_word_embeddings=False, layer_norm_eps=1e-3),
    }),
    "albert": ("Albert", [*HEADS, "ForPreTraining"], {
        "plain": dict(embedding_size=20, num_labels=3, num_hidden_layers=3),
        "groups": dict(embedding_size=24, num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2,
                       hidden_act="relu", tie_word_embeddings=False),
    }),
    "deberta-v2": ("DebertaV2", HEADS, {
        "plain": dict(relative_attention=True, position_buckets=6, norm_rel_ebd="layer_norm", share_att_key=True,
                      pos_att_type=["p2c", "c2p"], position_biased_input=False, max_relative_positions=-1,
                      max_position_embeddings=12, num_labels=3),
        "conv": dict(relative_attention=True, max_relative_positions=5, pos_att_type=["c2p", "p2c"],
                     conv_kernel_size=3, conv_groups=2, conv_act="gelu", type_vocab_size=2, pooler_hidden_act="tanh",
                     tie_word_embeddings=False),
        "absolute": dict(embedding_size=20, pos_att_type=["c2p"]),
        "c2p": dict(relative_attention=True, position_buckets=8, pos_att_type=["c2p"], legacy=False,
                    norm_rel_ebd="none"),
        "p2c": dict(relative_attention=True, position_buckets=4, pos_att_type=["p2c"], conv_kernel_size=5,
                    position_biased_input=False, legacy=False),
    }),
    "modernbert": ("ModernBert", HEADS, {
        "plain": dict(**LAYERS, local_attention=6, num_labels=3),
        "biased": dict(local_attention=4, norm_bias=True, attention_bias=True, mlp_bias=True, decoder_bias=False,
                       classifier_bias=True, classifier_pooling="mean", classifier_activation="relu", norm_eps=1e-3,
                       hidden_activation="relu", tie_word_embeddings=False,
                       layer_types=["sliding_attention", "full_attention"],
                       rope_parameters=dict(full_attention=dict(rope_type="linear", factor=2.0, rope_theta=900.0),
                                            sliding_attention=dict(rope_type="default", rope_theta=50.0))),
        "sliding": dict(local_attention=8, layer_types=["sliding_attention"] * 2),
    }),
}
NO_PREPARED_MASK = {"deberta-v2", "mpnet"}


def inputs_for(config, shape, seed, choices=None):
    """The second row is padded on the right, the third on the left; padding has its id."""
    generator = torch.Generator().manual_seed(1000 + seed)
    batch, sequence = shape
    ids = torch.randint(5, config.vocab_size, shape, generator=generator)
    mask = torch.ones(shape, dtype=torch.int64)
    if batch > 1:
        mask[1, sequence - 2:] = 0
    if batch > 2:
        mask[2, :4] = 0
    ids = ids.masked_fill(mask == 0, config.pad_token_id)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.randint(0, config.type_vocab_size, shape, generator=generator)
    if choices:
        inputs = {k: torch.stack([v] + [v.roll(i, 0) for i in range(1, choices)], 1) for k, v in inputs.items()}
    return inputs


def make_calls(model, family, folder):
    """Other ways to call the same model: fewer inputs, embeddings, positions, a prepared mask, a tuple."""
    config = model.config
    base = inputs_for(config, (2, 7), 0)
    width = model.get_input_embeddings().embedding_dim
    embeds = torch.randn(2, 7, width, generator=torch.Generator().manual_seed(5))
    calls = {
        "ids_only": ({"input_ids": base["input_ids"]}, {}),
        "embeds": ({"inputs_embeds": embeds, "attention_mask": base["attention_mask"]}, {}),
        "positions": ({"input_ids": base["input_ids"], "position_ids": torch.arange(7).flip(0)[None]}, {}),
        "float_mask": ({**base, "attention_mask": base["attention_mask"].float()}, {}),
        "int32_ids": ({"input_ids": base["input_ids"].int()}, {}),
        "tuple": (base, {"return_dict": False, "output_hidden_states": True}),
    }
    if family not in NO_PREPARED_MASK:
        allowed = torch.tril(torch.ones(7, 7, dtype=torch.bool)).expand(2, 1, 7, 7).clone()
        calls["prepared_mask"] = ({"input_ids": base["input_ids"], "attention_mask": allowed}, {})
    for name, (inputs, flags) in calls.items():
        record(model, os.path.join(folder, f"io_call_{name}.safetensors"), inputs, flags)


def make_case(out, family, head, config_name, seed, dtype=torch.float32):
    prefix, _, configs = FAMILIES[family]
    cls = getattr(transformers, prefix + head)
    settings = {**BASE, **configs[config_name]}
    if head == "ForQuestionAnswering":
        settings["num_labels"] = 2
    model = cls(cls.config_class(**settings)).eval()
    randomize(model, 100 * seed + len(family))
    folder = folder_of(os.path.join(out, family), model, config_name, seed, dtype)
    model = saved(model, folder, dtype)
    choices = 3 if head == "ForMultipleChoice" else None
    for name, shape in SHAPES.items():
        inputs = inputs_for(model.config, shape, seed, choices)
        record(model, os.path.join(folder, f"io_{name}.safetensors"), inputs)
    if dtype == torch.float32:
        with eager_attention(model):
            record(model, os.path.join(folder, "io_recorded.safetensors"), inputs, RECORDED)
    if head == "Model" and seed == 0:
        make_calls(model, family, folder)


# name: (model type, class_config_seed of the weights, what config.json loses, what it gets)
OLD_CONFIGS = {
    "modernbert_thetas": ("modernbert", "ModernBertForMaskedLM_plain_0", ["rope_parameters", "layer_types"],
                          dict(global_rope_theta=500.0, local_rope_theta=20.0, global_attn_every_n_layers=2)),
    "modernbert_pattern": ("modernbert", "ModernBertModel_plain_0", ["rope_parameters", "layer_types"], {}),
    "deberta_types_as_text": ("deberta-v2", "DebertaV2Model_plain_0", [], dict(pos_att_type="P2C | c2p")),
    "distilbert_names": ("distilbert", "DistilBertModel_plain_0", ["dim", "n_heads", "n_layers"],
                         dict(hidden_size=32, num_attention_heads=4, num_hidden_layers=2)),
    "roberta_defaults": ("roberta", "RobertaModel_plain_0", ["pad_token_id", "hidden_act", "layer_norm_eps"], {}),
}


def make_old_configs(out):
    for name, (family, case, lost, added) in OLD_CONFIGS.items():
        source = os.path.join(out, family, case)
        folder = os.path.join(out, "old_configs", name)
        os.makedirs(folder, exist_ok=True)
        os.link(os.path.join(source, "model.safetensors"), os.path.join(folder, "model.safetensors"))
        with open(os.path.join(source, "config.json")) as file:
            config = json.load(file)
        for field in lost:
            config.pop(field, None)
        config.update(added)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        model = getattr(transformers, case.split("_")[0]).from_pretrained(folder).eval()
        record(model, os.path.join(folder, "io_b3s12.safetensors"), inputs_for(model.config, (3, 12), 3))


def make_family(out, family):
    _, heads, configs = FAMILIES[family]
    for config_name in configs:
        for seed in range(2):
            for head in heads if seed == 0 else heads[:2]:
                make_case(out, family, head, config_name, seed)
    make_case(out, family, heads[1], next(iter(configs)), 9, torch.bfloat16)


def main():
    out = sys.argv[1]
    make_families(make_family, out, FAMILIES)
    make_old_configs(out)
    mark_current(__file__)


if __name__ == "__main__":
    main()
