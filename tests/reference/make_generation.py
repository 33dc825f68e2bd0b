"""What transformers generates with the checkpoints of make_decoders.py and make_seq2seq.py, and what its logits processors
make of scores.

    python make_generation.py OUTDIR DECODERS SEQ2SEQ

DECODERS and SEQ2SEQ are what those two wrote. Writes OUTDIR/<family>/<checkpoint>.safetensors for every language model in
float32 with "<case>.input_ids", "<case>.attention_mask" (where one was passed) and "<case>.sequences"; the metadata holds
JSON: "cases" (case → settings of generate). A setting "seed" is what torch.manual_seed got. Prompts are chosen so that at
each step the two best scores differ by at least MARGIN: rounding cannot change which token comes next. The reference's
generate fails where T5's decoder has more layers than its encoder, and Whisper has a generate of its own: their sequences
come from forwards over all tokens, without a cache.

OUTDIR/logits.safetensors holds "ids", "scores", and for each entry of the metadata's "cases" (settings of a generation
config) "<i>.scores" as the processors leave them and "<i>.tokens", drawn after torch.manual_seed(<i>).
"""

import glob
import json
import os
import sys

from reference_folder import exit_if_current, mark_current

if __name__ == "__main__":
    exit_if_current(__file__)

from checkpoints import record_generation

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GenerationConfig

NEW_TOKENS = 32
PROMPT = 7
MARGIN = 1e-3


def prompt(config, rows, seed):
    """Rows after the first are padded on the left."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, config.vocab_size, (rows, PROMPT), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, rows):
        mask[row, : 2 * row] = 0
        ids[row, : 2 * row] = config.pad_token_id or 0
    return ids, mask


def generate(model, settings, ids, mask=None):
    """Sequences, and the smallest difference between the two best scores at any step of a row that goes on."""
    settings = dict(settings)
    if "seed" in settings:
        torch.manual_seed(settings.pop("seed"))
    inputs = {"input_ids": ids} if mask is None else {"input_ids": ids, "attention_mask": mask}
    output = model.generate(**inputs, **settings, output_scores=True, return_dict_in_generate=True)
    margins = []
    for step, scores in enumerate(output.scores):
        best = scores.topk(2).values
        chosen = output.sequences[:, ids.shape[1] + step]
        pad = settings.get("pad_token_id", model.generation_config.pad_token_id)
        margins += [m for m, token in zip((best[:, 0] - best[:, 1]).tolist(), chosen.tolist()) if token != pad]
    return output.sequences, min(margins)


def greedy_prompt(model, settings, rows):
    for seed in range(200):
        ids, mask = prompt(model.config, rows, seed)
        sequences, margin = generate(model, settings, ids, mask)
        if margin >= MARGIN:
            return ids, mask, sequences
    raise RuntimeError(f"{type(model).__name__}: no prompt whose best scores differ by {MARGIN}")


def cases(model):
    """(name, settings of generate, inputs, sequences)."""
    greedy = dict(max_new_tokens=NEW_TOKENS, eos_token_id=None)
    ids, mask, sequences = greedy_prompt(model, greedy, 2)
    yield "greedy", greedy, {"input_ids": ids, "attention_mask": mask}, sequences
    new = sequences[:, PROMPT:]
    # One row ends within, the other later or at the end; a token of either that the other may have too.
    stops = dict(max_new_tokens=NEW_TOKENS, eos_token_id=[int(new[0, 9]), int(new[1, 14])], pad_token_id=0)
    yield "stops", stops, {"input_ids": ids, "attention_mask": mask}, generate(model, stops, ids, mask)[0]
    held = dict(max_new_tokens=16, repetition_penalty=1.3, no_repeat_ngram_size=2, min_new_tokens=8,
                eos_token_id=int(new[0, 1]), suppress_tokens=[5, 17], begin_suppress_tokens=[int(new[0, 0])])
    ids, mask, sequences = greedy_prompt(model, held, 3)
    yield "held", held, {"input_ids": ids, "attention_mask": mask}, sequences
    alone = dict(max_length=15, eos_token_id=None)
    ids, _, _ = greedy_prompt(model, alone, 1)
    yield "alone", alone, {"input_ids": ids}, generate(model, alone, ids)[0]
    sampled = dict(max_new_tokens=20, do_sample=True, temperature=0.8, top_k=20, top_p=0.9, seed=11, eos_token_id=None)
    ids, mask = prompt(model.config, 3, 5)
    yield "sampled", sampled, {"input_ids": ids, "attention_mask": mask}, generate(model, sampled, ids, mask)[0]


def record(folder, path):
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    record_generation(path, cases(model))
    return model


SEQ2SEQ_TOKENS = 20


def seq2seq_inputs(model, seed):
    generator = torch.Generator().manual_seed(seed)
    if model.main_input_name == "input_features":
        frames = 2 * model.config.max_source_positions
        return {"input_features": torch.randn(2, model.config.num_mel_bins, frames, generator=generator)}
    ids = torch.randint(3, model.config.vocab_size, (2, PROMPT), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def without_cache(model, inputs):
    """Greedy search by forwards over all tokens, and the smallest difference between the two best scores."""
    sequences = torch.full((2, 1), model.generation_config.decoder_start_token_id)
    margin = float("inf")
    with torch.no_grad():
        for _ in range(SEQ2SEQ_TOKENS):
            scores = model(**inputs, decoder_input_ids=sequences, use_cache=False).logits[:, -1]
            best = scores.topk(2).values
            margin = min(margin, (best[:, 0] - best[:, 1]).min().item())
            sequences = torch.cat([sequences, scores.argmax(-1, keepdim=True)], -1)
    return sequences, margin


def seq2seq_greedy(model, inputs, settings):
    deeper = getattr(model.config, "num_decoder_layers", 0) > getattr(model.config, "num_layers", 0)
    if deeper or "input_features" in inputs:
        return without_cache(model, inputs)
    output = model.generate(**inputs, **settings, output_scores=True, return_dict_in_generate=True)
    best = [scores.topk(2).values for scores in output.scores]
    return output.sequences, min((b[:, 0] - b[:, 1]).min().item() for b in best)


def record_seq2seq(folder, path):
    with open(os.path.join(folder, "config.json")) as file:
        name = json.load(file)["architectures"][0]
    model = getattr(transformers, name).from_pretrained(folder).eval()
    settings = dict(max_new_tokens=SEQ2SEQ_TOKENS, eos_token_id=None, num_beams=1)
    for seed in range(200):
        inputs = seq2seq_inputs(model, seed)
        sequences, margin = seq2seq_greedy(model, inputs, settings)
        if margin >= MARGIN:
            break
    else:
        raise RuntimeError(f"{folder}: no inputs whose best scores differ by {MARGIN}")
    record_generation(path, [("greedy", settings, inputs, sequences)])


LOGITS = [
    dict(),
    dict(temperature=0.7, top_k=0),
    dict(top_k=5),
    dict(top_k=1000),
    dict(top_p=0.8, top_k=0),
    dict(top_p=0.0, top_k=0),
    dict(min_p=0.1, top_k=0),
    dict(temperature=1.7, top_k=30, top_p=0.95, min_p=0.02),
    dict(repetition_penalty=1.4, top_k=0),
    dict(repetition_penalty=0.6, no_repeat_ngram_size=2),
    dict(no_repeat_ngram_size=1, top_k=0),
    dict(min_new_tokens=9, eos_token_id=[3, 4]),
    dict(min_length=2, eos_token_id=3),
    dict(suppress_tokens=[1, 2, 60], begin_suppress_tokens=[7]),
    dict(forced_eos_token_id=[8, 9], max_length=11),
    dict(do_sample=False, repetition_penalty=1.2, temperature=0.5),
]


def record_logits(model, path):
    generator = torch.Generator().manual_seed(3)
    scores = 3 * torch.randn(4, model.config.vocab_size, generator=generator)
    # Equal scores, on the border of what is kept.
    scores[2] = scores[2].round()
    ids = torch.randint(3, 20, (4, 10), generator=generator)
    mask = torch.ones(4, 6, dtype=torch.int64)
    mask[1, :3] = 0
    tensors = {"ids": ids, "scores": scores.clone(), "mask": mask}
    for i, settings in enumerate(LOGITS):
        config = GenerationConfig(**{"do_sample": True, **settings})
        config.update(**config._get_default_generation_params(), defaults_only=True)
        config.max_length = settings.get("max_length", 30)
        model._prepare_special_tokens(config, True, device="cpu")
        processors = model._get_logits_processor(config, input_ids_seq_length=6, device="cpu",
                                                 model_kwargs={"attention_mask": mask})
        if config.min_new_tokens is not None:
            config.min_length = config.min_new_tokens + 6
        processed = processors(ids, scores.clone())
        torch.manual_seed(i)
        tensors[f"{i}.scores"] = processed.clone()
        tensors[f"{i}.tokens"] = (torch.multinomial(processed.softmax(-1), 1).squeeze(1) if config.do_sample
                                  else processed.argmax(-1))
    save_file(tensors, path, metadata={"cases": json.dumps(LOGITS)})


def main():
    out, decoders, seq2seq = sys.argv[1:4]
    model = None
    for folder in sorted(glob.glob(os.path.join(decoders, "*", "*_0"))):
        family, name = folder.split(os.sep)[-2:]
        if "ForCausalLM" in name or "LMHeadModel" in name:
            model = record(folder, os.path.join(out, family, name + ".safetensors"))
    record_logits(model, os.path.join(out, "logits.safetensors"))
    for folder in sorted(glob.glob(os.path.join(seq2seq, "*", "*_0"))):
        family, name = folder.split(os.sep)[-2:]
        if "ForConditionalGeneration" in name or "MTModel" in name:
            record_seq2seq(folder, os.path.join(out, family, name + ".safetensors"))
    mark_current(__file__)


if __name__ == "__main__":
    main()
