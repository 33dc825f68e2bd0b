"""Tiny random checkpoints with inputs and the outputs that transformers computes for them.

    python make_models.py OUTDIR [MINILM]

Writes, for every case, the folder OUTDIR/cases/<case>/ of a checkpoint (checkpoints.py) with io_<shape>.safetensors as
`record` writes it. OUTDIR/variants/ has checkpoints that were changed after
they were saved. MINILM is the folder of the all-MiniLM-L6-v2 checkpoint.
"""

import json
import os
import sys

from reference_folder import exit_if_current, mark_current

if __name__ == "__main__":
    exit_if_current(__file__)

from checkpoints import RECORDED, eager_attention, randomize, record, saved

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import BertConfig

SHAPES = {"b1s1": (1, 1), "b2s7": (2, 7), "b3s12": (3, 12)}

CONFIGS = {
    "gelu": dict(
        vocab_size=53, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=16, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0, hidden_act="gelu"),
    "relu": dict(
        vocab_size=31, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=20,
        max_position_embeddings=12, type_vocab_size=3, layer_norm_eps=1e-5, pad_token_id=2, hidden_act="relu",
        num_labels=5),
    "gelu_new": dict(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=20, type_vocab_size=1, layer_norm_eps=1e-3, pad_token_id=None, hidden_act="gelu_new",
        num_labels=1, tie_word_embeddings=False, chunk_size_feed_forward=1),
}

HEADS = ["BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification",
         "BertForQuestionAnswering", "BertForMultipleChoice", "BertForNextSentencePrediction", "BertForPreTraining"]


def inputs_for(config, shape, seed, choices=None):
    generator = torch.Generator().manual_seed(1000 + seed)
    batch, sequence = shape
    ids = torch.randint(0, config.vocab_size, shape, generator=generator)
    types = torch.randint(0, config.type_vocab_size, shape, generator=generator)
    mask = torch.ones(shape, dtype=torch.int64)
    for row in range(1, batch):
        mask[row, sequence - (row % sequence):] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    if choices:
        inputs = {k: torch.stack([v] + [v.roll(i, 0) for i in range(1, choices)], 1) for k, v in inputs.items()}
    return inputs


def make_case(out, case, head, config_name, seed, dtype=torch.float32, shapes=SHAPES):
    settings = dict(CONFIGS[config_name])
    if head == "BertForQuestionAnswering":
        settings["num_labels"] = 2
    config = BertConfig(**settings)
    model = getattr(transformers, head)(config).eval()
    randomize(model, seed)
    folder = os.path.join(out, "cases", case)
    loaded = saved(model, folder, dtype)
    choices = 3 if head == "BertForMultipleChoice" else None
    inputs = {name: inputs_for(config, shape, seed, choices) for name, shape in shapes.items()}
    for name in shapes:
        record(loaded, os.path.join(folder, f"io_{name}.safetensors"), inputs[name])
    with eager_attention(loaded):
        for name in shapes:
            record(loaded, os.path.join(folder, f"io_{name}_recorded.safetensors"), inputs[name], RECORDED)
    return loaded


def make_variants(out, model, folder):
    """Other ways to call the same model: fewer inputs, embeddings, positions, a prepared mask, a tuple."""
    config = model.config
    base = inputs_for(config, (2, 7), 0)
    embeds = torch.randn(2, 7, config.hidden_size, generator=torch.Generator().manual_seed(5))
    positions = torch.arange(7).flip(0)[None]
    allowed = torch.tril(torch.ones(7, 7, dtype=torch.bool)).expand(2, 1, 7, 7).clone()
    calls = {
        "ids_only": ({"input_ids": base["input_ids"]}, {}),
        "embeds": ({"inputs_embeds": embeds, "attention_mask": base["attention_mask"]}, {}),
        "positions": ({"input_ids": base["input_ids"], "position_ids": positions}, {}),
        "float_mask": ({**base, "attention_mask": base["attention_mask"].float()}, {}),
        "prepared_mask": ({"input_ids": base["input_ids"], "attention_mask": allowed}, {}),
        "int32_ids": ({"input_ids": base["input_ids"].int()}, {}),
        "tuple": (base, {"return_dict": False, "output_hidden_states": True}),
    }
    for name, (inputs, flags) in calls.items():
        record(model, os.path.join(out, "cases", folder, f"io_call_{name}.safetensors"), inputs, flags)


def change(source, target, edit_tensors=None, edit_config=None):
    """A copy of a checkpoint with other tensors or another config. `edit` functions change a dict in place."""
    os.makedirs(target, exist_ok=True)
    tensors = load_file(os.path.join(source, "model.safetensors"))
    with open(os.path.join(source, "config.json")) as file:
        config = json.load(file)
    if edit_tensors:
        edit_tensors(tensors)
    if edit_config:
        edit_config(config)
    save_file(tensors, os.path.join(target, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(target, "config.json"), "w") as file:
        json.dump(config, file)


def make_loading_variants(out):
    """Checkpoints as they are found in the wild; io_b2s7.safetensors only where what the reference does is right."""
    masked_lm = os.path.join(out, "cases", "BertForMaskedLM_gelu_0")
    classifier = os.path.join(out, "cases", "BertForSequenceClassification_gelu_0")
    word, decoder = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
    bias, decoder_bias = "cls.predictions.bias", "cls.predictions.decoder.bias"
    other = torch.randn(53, 24, generator=torch.Generator().manual_seed(9))

    def both(t, value=None):
        t[decoder] = (t[word] if value is None else value).clone()

    def only_decoder(t):
        t[decoder] = t.pop(word)
        t[decoder_bias] = t.pop(bias)

    def untied_two(t):
        both(t, other)
        t[decoder_bias] = other[:, 0].clone()

    def neither(t):
        t.pop(word)

    def other_bias(t):
        t[decoder_bias] = other[:, 1].clone()

    def legacy_names(t):
        for name in list(t):
            renamed = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            t[renamed] = t.pop(name)

    def without_prefix(t):
        for name in list(t):
            t[name.removeprefix("bert.")] = t.pop(name)

    def old_buffer(t):
        t["bert.embeddings.position_ids"] = torch.arange(16)[None]

    def flag(value):
        return lambda config: config.update(tie_word_embeddings=value)

    variants = {
        # name: (source, edit tensors, edit config, class to load or None when there is no right answer)
        "tied_two_equal": (masked_lm, both, None, "BertForMaskedLM"),
        "tied_two_different": (masked_lm, lambda t: both(t, other), None, "BertForMaskedLM"),
        "tied_other_bias": (masked_lm, other_bias, None, "BertForMaskedLM"),
        "tied_only_decoder": (masked_lm, only_decoder, None, "BertForMaskedLM"),
        "untied_two": (masked_lm, untied_two, flag(False), "BertForMaskedLM"),
        "untied_no_decoder": (masked_lm, None, flag(False), None),
        "tied_neither": (masked_lm, neither, None, None),
        "legacy_names": (masked_lm, legacy_names, None, "BertForMaskedLM"),
        "without_prefix": (masked_lm, without_prefix, None, "BertForMaskedLM"),
        "old_buffer": (masked_lm, old_buffer, None, "BertForMaskedLM"),
        "bare_of_classifier": (classifier, None, None, "BertModel"),
    }
    for name, (source, edit_tensors, edit_config, head) in variants.items():
        folder = os.path.join(out, "variants", name)
        change(source, folder, edit_tensors, edit_config)
        if head:
            model = getattr(transformers, head).from_pretrained(folder).eval()
            record(model, os.path.join(folder, "io_b2s7.safetensors"), inputs_for(model.config, (2, 7), 3))


def make_dtype_variants(out):
    """dtype.json: variant → the dtype that the reference gives its parameters."""
    source = os.path.join(out, "cases", "BertModel_gelu_0")
    half = lambda t: t.update({k: v.half() for k, v in t.items()})

    def keys(**values):
        def edit(config):
            config.pop("dtype", None)
            config.update(values)
        return edit

    variants = {
        "half_with_key": (half, keys(dtype="float16")),
        "half_with_old_key": (half, keys(torch_dtype="float16")),
        "half_without_key": (half, keys()),
        "half_says_float32": (half, keys(dtype="float32")),
        "float32_says_bfloat16": (None, keys(dtype="bfloat16")),
        "both_keys": (half, keys(dtype="bfloat16", torch_dtype="float32")),
    }
    result = {}
    for name, (edit_tensors, edit_config) in variants.items():
        folder = os.path.join(out, "variants", "dtype_" + name)
        change(source, folder, edit_tensors, edit_config)
        result["dtype_" + name] = str(transformers.BertModel.from_pretrained(folder).dtype).removeprefix("torch.")
    with open(os.path.join(out, "dtype.json"), "w") as file:
        json.dump(result, file)


def make_activations(out):
    from transformers.activations import ACT2FN

    x = torch.cat([torch.linspace(-12, 12, 97), torch.tensor([0.0, -0.0, 1e-4, -1e-4])])
    tensors = {"in": x}
    for name in ACT2FN:
        if name not in ("prelu", "xielu"):
            with torch.no_grad():
                tensors[f"out.{name}"] = ACT2FN[name](x.clone()).contiguous()
    save_file(tensors, os.path.join(out, "activations.safetensors"))


def make_masks(out):
    from transformers.masking_utils import create_bidirectional_mask, create_causal_mask

    tensors = {}
    padding = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]])
    packed = torch.tensor([[0, 1, 2, 0, 1], [3, 4, 5, 6, 7], [0, 0, 1, 5, 6], [0, 1, 0, 1, 0]])
    for kind in ("sdpa", "eager"):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            config = BertConfig()
            config._attn_implementation = kind
            embeds = torch.zeros(4, 5, 8, dtype=dtype)
            name = f"{kind}.{str(dtype)[6:]}"
            tensors[f"{name}.bidirectional"] = create_bidirectional_mask(config, embeds, padding)
            tensors[f"{name}.causal"] = create_causal_mask(config, embeds, padding, None)
            tensors[f"{name}.packed"] = create_causal_mask(config, embeds, None, None, position_ids=packed)
    tensors = {k: v.contiguous().clone() for k, v in tensors.items()}
    save_file({**tensors, "padding": padding, "positions": packed}, os.path.join(out, "masks.safetensors"))


def make_minilm(out, folder):
    model = transformers.AutoModel.from_pretrained(folder).eval()
    target = os.path.join(out, "minilm")
    os.makedirs(target, exist_ok=True)
    for batch, sequence in [(1, 1), (1, 128), (2, 7), (3, 512), (64, 16)]:
        generator = torch.Generator().manual_seed(batch * 1000 + sequence)
        ids = torch.randint(0, model.config.vocab_size, (batch, sequence), generator=generator)
        mask = torch.ones_like(ids)
        for row in range(1, batch):
            mask[row, max(1, sequence - row * 5 % sequence):] = 0
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
        record(model, os.path.join(target, f"io_b{batch}s{sequence}.safetensors"), inputs)


def main():
    out = sys.argv[1]
    for i, config_name in enumerate(CONFIGS):
        for seed in range(3):
            heads = HEADS if seed == 0 else ["BertModel", "BertForMaskedLM", "BertForSequenceClassification",
                                             "BertForTokenClassification", "BertForQuestionAnswering"]
            for head in heads:
                case = f"{head}_{config_name}_{seed}"
                model = make_case(out, case, head, config_name, 10 * i + seed)
                if head == "BertModel" and seed == 0 and config_name == "gelu":
                    make_variants(out, model, case)
    make_case(out, "BertModel_bfloat16", "BertModel", "gelu", 77, torch.bfloat16)
    make_case(out, "BertForMaskedLM_float16", "BertForMaskedLM", "relu", 78, torch.float16)
    make_loading_variants(out)
    make_dtype_variants(out)
    make_activations(out)
    make_masks(out)
    if len(sys.argv) > 2:
        make_minilm(out, sys.argv[2])
    mark_current(__file__)


if __name__ == "__main__":
    main()
