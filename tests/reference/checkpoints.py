"""What the makers of tiny random checkpoints share: random weights, folders, and records of calls.

A folder of a checkpoint has config.json and model.safetensors as save_pretrained writes them, state.json with the names
of the state_dict, the parameters and the buffers, and a file for each recorded call.
"""

import contextlib
import copy
import json
import multiprocessing
import os

# Read as transformers is imported: makers import this first.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers
from safetensors.torch import save_file
from torch.utils import _pytree as pytree
from transformers.utils import ModelOutput

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()

RECORDED = {"output_hidden_states": True, "output_attentions": True}


def randomize(model, seed, scale=0.2):
    """Every parameter, biases and norms too: the library's own initialisation leaves many at 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = name.endswith("weight") and parameter.ndim == 1
            parameter.copy_((1.0 if is_norm else 0.0) + scale * torch.randn(parameter.shape, generator=generator))


def saved(model, folder, dtype=torch.float32):
    """The model as it is loaded again: what is compared includes the reference's own loader."""
    model.to(dtype).save_pretrained(folder)
    loaded = type(model).from_pretrained(folder).eval()
    state = {"state_dict": list(loaded.state_dict()),
             "parameters": [name for name, _ in loaded.named_parameters(remove_duplicate=False)],
             "buffers": [name for name, _ in loaded.named_buffers()]}
    with open(os.path.join(folder, "state.json"), "w") as file:
        json.dump(state, file)
    return loaded


def folder_of(parent, model, config_name, seed, dtype=torch.float32):
    """The parent's folder <class>_<config>_<seed>, with the dtype behind it unless that is float32."""
    suffix = "" if dtype == torch.float32 else "_" + str(dtype).removeprefix("torch.")
    return os.path.join(parent, f"{type(model).__name__}_{config_name}_{seed}{suffix}")


@contextlib.contextmanager
def eager_attention(model):
    """Attention that can be recorded."""
    default = model.config._attn_implementation
    model.set_attn_implementation("eager")
    yield
    model.set_attn_implementation(default)


def make_families(make_family, out, families):
    """Two processes: most of the time goes into making and loading small files."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.starmap(make_family, [(out, family) for family in families], chunksize=1)


# ── Inputs ──

def ids_for(config, shape, seed):
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randint(3, config.vocab_size, shape, generator=generator)


def padded(shape, side):
    batch, length = shape
    mask = torch.ones(shape, dtype=torch.int64)
    for row in range(1, batch):
        count = (2 * row) % length
        if count:
            mask[row, :count] = 0 if side == "left" else 1
            mask[row, length - count:] = 0 if side == "right" else 1
    return mask


def positions_of(mask):
    return (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)


# ── Records ──

def flat(output, prefix=""):
    items = output.items() if isinstance(output, ModelOutput) else enumerate(output)
    for key, value in items:
        if torch.is_tensor(value):
            yield f"{prefix}{key}", value.contiguous().clone()
        elif value is not None:
            yield from flat(value, f"{prefix}{key}.")


def class_of(output):
    return f"{type(output).__module__}.{type(output).__name__}" if isinstance(output, ModelOutput) else "tuple"


def record(model, path, inputs, flags=None):
    """Records one forward: "in.<argument>" and "out.<path>" tensors. The metadata holds the output's class ("class"), its
    keys ("keys", JSON), the class of the model ("model") and forward's other arguments ("flags", JSON)."""
    with torch.no_grad():
        output = model(**inputs, **(flags or {}))
    tensors = {f"in.{k}": v.contiguous().clone() for k, v in inputs.items()}
    tensors.update({f"out.{k}": v for k, v in flat(output)})
    keys = list(output.keys()) if isinstance(output, ModelOutput) else list(range(len(output)))
    meta = {"model": type(model).__name__, "class": class_of(output), "keys": json.dumps(keys),
            "flags": json.dumps(flags or {})}
    save_file(tensors, path, metadata=meta)


def call(model, path, inputs, flags=None):
    """Records one forward with leaves of trees: "in.<argument>" ("in.<argument>.<i>" for the leaves of a cache) and
    "out.<i>" tensors; in the metadata, as JSON, "in_specs" (argument → tree spec of a cache), "out_spec" (tree spec as
    torch.export writes it) and "flags". Returns the output. A cache among the inputs is left as it was."""
    tensors, specs = {}, {}
    for name, value in inputs.items():
        if torch.is_tensor(value):
            tensors[f"in.{name}"] = value
            continue
        leaves, spec = pytree.tree_flatten(value)
        specs[name] = pytree.treespec_dumps(spec)
        tensors.update({f"in.{name}.{i}": leaf for i, leaf in enumerate(leaves)})
    tensors = {k: v.contiguous().clone() for k, v in tensors.items()}
    with torch.no_grad():
        output = model(**copy.deepcopy(inputs), **(flags or {}))
    leaves, spec = pytree.tree_flatten(output)
    tensors.update({f"out.{i}": leaf.contiguous().clone() for i, leaf in enumerate(leaves)})
    meta = {"in_specs": json.dumps(specs), "out_spec": pytree.treespec_dumps(spec), "flags": json.dumps(flags or {})}
    save_file(tensors, path, metadata=meta)
    return output


def record_generation(path, cases):
    """`cases`: (name, settings of generate, inputs, sequences). Writes "<name>.<input>" and "<name>.sequences", and the
    settings as JSON ("cases") into the metadata."""
    tensors, settings_of = {}, {}
    for name, settings, inputs, sequences in cases:
        settings_of[name] = settings
        tensors.update({f"{name}.{key}": value.contiguous().clone() for key, value in inputs.items()})
        tensors[f"{name}.sequences"] = sequences.clone()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    save_file(tensors, path, metadata={"cases": json.dumps(settings_of)})
