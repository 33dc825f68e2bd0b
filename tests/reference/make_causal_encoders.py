"""Tiny random checkpoints of text encoders as decoders (is_decoder), with inputs, caches and the outputs of transformers,
and what it generates with them.

    python make_causal_encoders.py OUTDIR

Writes OUTDIR/<model type>/<class>_<config>_<seed>/ as make_decoders.py writes its folders; generation.safetensors in a
folder holds generate calls as make_generation.py records them.
"""

import os
import sys

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

import torch
from make_decoders import BASE, FAMILIES, make_case, other_calls, static_calls
from make_generation import record

ROBERTA = {
    "plain": dict(pad_token_id=1, type_vocab_size=1),
    "changed": dict(pad_token_id=4, type_vocab_size=2, layer_norm_eps=1e-3, hidden_act="relu", tie_word_embeddings=False,
                    num_hidden_layers=3),
}
# model type: (prefix of the classes, class, {config name: changes to BASE})
CAUSAL = {
    "bert": ("Bert", "LMHeadModel", {
        "plain": dict(),
        "changed": dict(hidden_act="gelu_new", tie_word_embeddings=False, type_vocab_size=3, num_attention_heads=2),
    }),
    "roberta": ("Roberta", "ForCausalLM", ROBERTA),
    "xlm-roberta": ("XLMRoberta", "ForCausalLM", ROBERTA),
    "camembert": ("Camembert", "ForCausalLM", ROBERTA),
    "electra": ("Electra", "ForCausalLM", {
        "plain": dict(embedding_size=32),
        "narrow": dict(embedding_size=20, hidden_act="relu", tie_word_embeddings=False, type_vocab_size=3),
    }),
}


def make_family(out, family):
    prefix, head, configs = CAUSAL[family]
    FAMILIES[family] = (prefix, [head], configs)  # where make_case looks
    for name, changes in configs.items():
        changes = dict(changes, is_decoder=True)
        for seed in range(2):
            model = make_case(out, family, head, name, changes, seed)
            folder = os.path.join(out, family, f"{type(model).__name__}_{name}_{seed}")
            if seed == 0:
                other_calls(model, model.config, folder, seed)
                static_calls(model, model.config, folder, seed)
                record(folder, os.path.join(folder, "generation.safetensors"))
    first = next(iter(configs))
    make_case(out, family, head, first, dict(configs[first], is_decoder=True), 9, torch.bfloat16)


def main():
    BASE.pop("num_key_value_heads")  # they have none of their own
    for family in CAUSAL:
        make_family(sys.argv[1], family)
    mark_current(__file__)


if __name__ == "__main__":
    main()
