"""Small programs, one for each thing that a .pt2 can hold, and damaged archives: python make_pt2_cases.py OUTDIR [NAME…].

OUTDIR/programs/<name>/ is as make_pt2.py writes it, from modules of a few lines. OUTDIR/damage/ has what became of good
archives, in pairs of two different ones: <what>_0.pt2 and <what>_1.pt2.
"""

import collections
import copy
import io
import json
import os
import struct
import sys
import warnings
import zipfile

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from safetensors.torch import save_file
from torch import nn
from torch.export import Dim, ShapesCollection

warnings.filterwarnings("ignore")
AUTO = Dim.AUTO


def module(forward, **tensors):
    class Case(nn.Module):
        def __init__(self):
            super().__init__()
            for name, tensor in tensors.items():
                if isinstance(tensor, nn.Parameter):
                    self.register_parameter(name, tensor)
                elif isinstance(tensor, nn.Module):
                    self.add_module(name, tensor)
                else:
                    self.register_buffer(name, tensor)

    Case.forward = forward
    return Case().eval()


# ── What a program can hold ──


def mutates_input(self, x, y):
    x.add_(1)
    return x * y.sum()


def mutates_buffer(self, x):
    self.count.add_(1)
    self.total.copy_(self.total + x.sum(0))
    return x + self.total * self.count


class NonPersistent(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.arange(4.0))
        self.register_buffer("dropped", torch.arange(4.0) * 2, persistent=False)
        self.table = torch.tensor([3, 1, 2])

    def forward(self, x):
        return x[self.table] + self.kept + self.dropped + torch.tensor([0.5, 1.5, 2.5, 3.5])


def scalars(self, x, n: int, scale: float, flag: bool, mode: str, nothing=None):
    y = x * scale if flag else x
    return y + n if mode == "add" and nothing is None else y


def dynamic_int(self, x, n: int):
    return x[:n] * n, x.sum()


def float_sizes(self, x):
    length = x.shape[1]
    half = torch.sym_int(length * 0.5) + 1
    ratio = length / 4
    return x[:, :half] * ratio, torch.full((length // 2 + length % 3,), torch.sym_float(length) - ratio)


def interpolates(self, x):
    return F.interpolate(x, scale_factor=1.5, mode="nearest"), F.interpolate(x, size=(x.shape[2] * 2, 5), mode="bilinear")


def counts(self, x):
    rows = torch.nonzero(x[:, 0] > 0).squeeze(1)
    picked = x[rows]
    n = (x > 0.5).sum().item()
    torch._check(n >= 0)
    torch._check(n <= 100)
    return picked * 2, torch.arange(n), rows.shape[0] + x.shape[0]


Point = collections.namedtuple("Point", ["first", "second"])
pytree._register_namedtuple(Point, serialized_type_name="tests.Point")


def nested(self, pair, table, more, *, z):
    return {"sum": pair[0] + pair[1][0], "list": [table["b"], (table["a"] * 2, None)]}, more * z


def spread(self, x, *more, **named):
    return x + more[0] * more[1] - named["z"]


def named_tuple(self, point):
    return Point(point.first - point.second, point.second * 2)


def lists(self, x):
    first, second, third = x.split([2, 1, 3], dim=1)
    chunks = x.chunk(2, dim=0)
    values, indices = x.topk(2)
    return torch.cat([third, first], 1), second, [c.sum() for c in chunks], values, indices, x.unbind(1)[-1]


def broadcasts_lists(self, x):
    a, b = torch.meshgrid(torch.arange(x.shape[0]), torch.arange(x.shape[1]), indexing="ij")
    return torch.einsum("ij,kj->ik", x, x), x[a, b], x[:, None, :].expand(-1, 3, -1)


def unused(self, used, unused, passed):
    return used * 2, passed


def affine(self, past, new):
    whole = torch.cat([past, new], 1)
    return whole.cumsum(1), past + whole[:, : past.shape[1]]


def conditional(self, x, flag):
    return torch.cond(flag.sum() > 0, lambda a: (a.sin(), a * 2), lambda a: (a.cos(), a - 1), (x,))


def loops(self, x, times):
    return torch.while_loop(lambda i, a: i < times, lambda i, a: (i + 1, a * 1.5 + i), (torch.zeros((), dtype=torch.long), x))


def conditional_layers(self, x, flag):
    """Branches that use weights of the module."""
    return torch.cond(flag.any(), lambda a: self.linear(a).relu(), lambda a: self.linear(a * 2) + x.shape[0], (x,))


def loops_conditionally(self, x, times):
    """A branch in a loop, and a loop over several values of which one is only passed on."""

    def step(i, a, b):
        return i + 1, torch.cond((i % 2 == 0).all(), lambda c: c + 1, lambda c: c * 0.5, (a,)), b.clone()

    i, a, b = torch.while_loop(lambda i, a, b: (i < times) & (a.sum() < 1000), step,
                               (torch.zeros((), dtype=torch.long), x, x + 1))
    return a * b, i


def without_gradients(self, x):
    with torch.no_grad():
        y = self.linear(x).relu()
    with torch.enable_grad():
        z = self.linear(y)
    return z + y


def dtypes(self, x):
    c = torch.complex(x, x + 1)
    return (x.half() + 1, x.bfloat16() * 2, x > 0.2, c * (1 + 2j), torch.full_like(x, float("inf")), x.to(torch.int8),
            torch.clamp(x, min=-0.5), torch.full((2,), float("nan")), x.double())


def out_variants(self, x):
    whole = torch.empty(x.shape)
    torch.mul(x, 2, out=whole)
    rows = torch.zeros(2, *x.shape, dtype=torch.double)
    torch.add(x, 1, alpha=3, out=rows[1])
    values, indices = torch.empty(x.shape[0]), torch.empty(x.shape[0], dtype=torch.long)
    torch.max(x, 1, out=(values, indices))
    torch.sum(x, 0, out=self.sums)
    return whole, rows, values, indices, self.sums * 2


def out_resized(self, x):
    empty = torch.empty(0)
    torch.exp(x, out=empty)
    return empty.view(-1) + 1, torch.cumsum(x, 1, out=torch.empty(0, dtype=torch.double))


def in_place_shapes(self, x):
    same, less, more = x.clone(), x.clone(), x.clone()
    same.resize_(12)
    less.resize_(2, 3).mul_(2)
    more.resize_(5, 4).fill_(2.0)
    taken = x.clone()
    taken.set_(x[1:])
    strided = x.clone()
    strided.as_strided_((2, 2), (1, 2), 1).neg_()
    turned = x.clone()
    turned.t_().squeeze_().unsqueeze_(0).swapaxes_(0, 1)
    return same, less, more, taken * 2, strided, turned


def in_place_parts(self, x):
    square = x[:, None] + x[None]
    square.fill_diagonal_(7.0)
    tall = x[:, None].expand(-1, 3).clone()
    tall.fill_diagonal_(-1.0, wrap=True)
    scaled = [x.clone(), x * 2]
    torch._foreach_mul_(scaled, 3.0)
    torch._foreach_add_(scaled, [x, x])
    complex_ = torch.complex(x, x)
    complex_.imag.mul_(2)
    complex_.real.add_(1)
    bits = x.clone()
    bits.view(torch.int16).zero_()
    x.masked_fill_(x > 0, 0.5)
    return square, tall, *scaled, torch.view_as_real(complex_), bits


def channels_last(self, x):
    return self.conv(x.contiguous(memory_format=torch.channels_last))


def shared_storage(self, x):
    return x @ self.whole + self.row, self.column * 2, self.transposed.sum(1), self.tail - self.head, self.expanded * x[0, 0]


def shared_views():
    base = torch.randn(4, 6)
    tensors = {"whole": base, "row": base[1], "column": base[:, 2], "transposed": base.t(),
               "tail": base.view(-1)[20:], "head": base.view(-1)[:4], "expanded": torch.randn(1, 5).expand(3, 5)}
    return module(shared_storage, **tensors)


def parts_only(self, x):
    self.later.add_(1)
    return x * self.later + self.strided.sum()


def shared_parts():
    base = torch.randn(10)
    return module(parts_only, later=base[6:], strided=base[1::3], other=base.view(2, 5)[:, 1:3])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))


class TiedByPassing(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def r(*shape):
    return torch.randn(*shape)


T = torch.tensor
# name: (module, calls as (args, kwargs) of which the first is traced, dynamic shapes or None for a static program)
PROGRAMS = {
    "mutates_input": (module(mutates_input), [((r(2, 3), r(4)), {}), ((r(5, 3), r(1)), {})], ({0: AUTO}, {0: AUTO})),
    "mutates_buffer": (module(mutates_buffer, count=T(2.0), total=torch.zeros(3)), [((r(2, 3),), {}), ((r(1, 3),), {})],
                       ({0: AUTO},)),
    "non_persistent": (NonPersistent(), [((r(5, 4),), {})], None),
    "scalars": (module(scalars), [((r(2, 3), 2, 1.5, True, "add"), {"nothing": None}),
                                  ((r(3, 3), 2, 1.5, True, "add"), {"nothing": None})],
                {"x": {0: AUTO}, "n": None, "scale": None, "flag": None, "mode": None, "nothing": None}),
    "dynamic_int": (module(dynamic_int), [((r(6, 2), 3), {}), ((r(9, 2), 5), {})], ({0: AUTO}, AUTO)),
    "float_sizes": (module(float_sizes), [((r(2, 8),), {}), ((r(3, 11),), {}), ((r(1, 6),), {})], ({0: AUTO, 1: AUTO},)),
    "interpolates": (module(interpolates), [((r(1, 2, 4, 6),), {}), ((r(1, 2, 7, 3),), {})], ({2: AUTO, 3: AUTO},)),
    "counts": (module(counts), [((r(6, 3),), {}), ((r(9, 3),), {}), ((-torch.ones(2, 3),), {})], ({0: AUTO},)),
    "nested": (module(nested), [(((r(2, 3), [r(2, 3)]), {"b": r(2), "a": r(2)}, r(3)), {"z": r(3)}),
                                (((r(4, 3), [r(4, 3)]), {"b": r(5), "a": r(7)}, r(1)), {"z": r(1)}),
                                (((r(4, 3), [r(5, 3)]), {"b": r(5), "a": r(7)}, r(1)), {"z": r(1)})],
               {"pair": ({0: AUTO}, [{0: AUTO}]), "table": {"b": {0: AUTO}, "a": {0: AUTO}}, "more": {0: AUTO},
                "z": {0: AUTO}}),
    "spread": (module(spread), [((r(2), r(2), r(2)), {"z": r(2)})], None),
    "named_tuple": (module(named_tuple), [((Point(r(2), r(2)),), {})], None),
    "lists": (module(lists), [((r(4, 6),), {}), ((r(7, 6),), {})], ({0: AUTO},)),
    "broadcasts_lists": (module(broadcasts_lists), [((r(4, 6),), {}), ((r(1, 2),), {}), ((r(3, 1),), {})], ({0: AUTO, 1: AUTO},)),
    "linear": (nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), [((r(2, 4),), {}), ((r(16, 4),), {}), ((r(17, 4),), {})],
               ({0: Dim("batch", max=16)},)),
    "unused": (module(unused), [((r(2), r(3, 4), r(5)), {}), ((r(3), r(1, 2), r(9)), {})], "auto"),
    "affine": (module(affine), [((r(2, 3), r(2, 4)), {}), ((r(3, 8), r(3, 1)), {}), ((r(1, 1), r(1, 6)), {}),
                                ((r(2, 3), r(3, 4)), {})], "auto"),
    "derived": (module(affine), [((r(2, 4), r(2, 2)), {}), ((r(3, 8), r(3, 4)), {}), ((r(3, 8), r(3, 5)), {})],
                ({0: AUTO, 1: 2 * Dim("half", min=1, max=64)}, {0: AUTO, 1: Dim("half", min=1, max=64)})),
    "conditional": (module(conditional), [((r(3, 2), T([1])), {}), ((r(5, 2), T([-1])), {})], ({0: AUTO}, None)),
    "loops": (module(loops), [((r(3), T(4)), {}), ((r(3), T(0)), {})], None),
    "conditional_layers": (module(conditional_layers, linear=nn.Linear(3, 2)),
                           [((r(3, 3), T([True, False])), {}), ((r(1, 3), T([False, False])), {})], ({0: AUTO}, None)),
    "loops_conditionally": (module(loops_conditionally), [((r(3, 2), T(5)), {}), ((r(6, 2), T(0)), {}), ((r(1, 2), T(1)), {})],
                            ({0: AUTO}, None)),
    "without_gradients": (module(without_gradients, linear=nn.Linear(4, 4)), [((r(2, 4),), {}), ((r(5, 4),), {})],
                          ({0: AUTO},)),
    "dtypes": (module(dtypes), [((r(2, 3),), {}), ((r(4, 3),), {})], ({0: AUTO},)),
    "out_variants": (module(out_variants, sums=torch.zeros(4)), [((r(3, 4),), {}), ((r(5, 4),), {})], ({0: AUTO},)),
    "out_resized": (module(out_resized), [((r(3, 4),), {})], None),
    "in_place_shapes": (module(in_place_shapes), [((r(3, 4),), {})], None),
    "in_place_parts": (module(in_place_parts), [((r(7),), {}), ((r(3),), {})], ({0: AUTO},)),
    "channels_last": (module(channels_last, conv=nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)),
                      [((r(2, 3, 6, 6),), {}), ((r(1, 3, 9, 5),), {})], ({0: AUTO, 2: AUTO, 3: AUTO},)),
    "recurrent": (nn.GRU(3, 4, batch_first=True).eval(), [((r(2, 5, 3),), {})], None),
    "shared_storage": (shared_views(), [((r(3, 4),), {}), ((r(1, 4),), {})], ({0: AUTO},)),
    "shared_parts": (shared_parts(), [((r(2, 4),), {}), ((r(5, 4),), {})], ({0: AUTO},)),
    "tied": (Tied(), [((T([[1, 2, 6], [0, 5, 3]]),), {}), ((T([[0], [3]]),), {})], "auto"),
    "tied_by_passing": (TiedByPassing(), [((r(2, 5),), {}), ((r(7, 5),), {})], "auto"),
}
# Made functional by torch itself before they are saved.
DECOMPOSED = ["mutates_input", "mutates_buffer", "lists", "float_sizes", "conditional", "conditional_layers", "tied"]


def leaves(tree):
    return [leaf if isinstance(leaf, torch.Tensor) else T(leaf) for leaf in pytree.tree_leaves(tree)
            if isinstance(leaf, torch.Tensor) or type(leaf) is int]


def tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def named(prefix, values):
    return {f"{prefix}{i}": value.contiguous().clone() for i, value in enumerate(values)}


def shapes_for(args, kwargs, dynamic):
    if dynamic != "auto":
        return dynamic
    shapes = ShapesCollection()
    for leaf in tensors((args, kwargs)):
        shapes[leaf] = {axis: AUTO for axis in range(leaf.dim())}
    return shapes


def make_program(name, folder):
    os.makedirs(folder)
    case, calls, dynamic = PROGRAMS[name.removesuffix("_decomposed")]
    args, kwargs = copy.deepcopy(calls[0])
    program = torch.export.export(copy.deepcopy(case), args, kwargs, dynamic_shapes=shapes_for(args, kwargs, dynamic))
    if name.endswith("_decomposed"):
        program = program.run_decompositions()
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    for i, call in enumerate(calls):
        args, kwargs = copy.deepcopy(call)
        # A scalar that was not dynamic is no input.
        is_input = [spec.kind.name == "USER_INPUT" and type(spec.arg).__name__ != "ConstantArgument"
                    for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        flat = pytree.tree_leaves((args, kwargs))
        given = named("in", [T(leaf) if type(leaf) is int else leaf for leaf, used in zip(flat, is_input) if used])
        runner = torch.export.load(os.path.join(folder, "model.pt2")).module()
        try:
            runner(*copy.deepcopy(call)[0], **copy.deepcopy(call)[1])
        except (AssertionError, RuntimeError) as error:
            print(f"  {name} {i} is refused: {str(error)[:200]}")
            save_file(given, os.path.join(folder, f"refused_{i}.safetensors"))
            continue
        outputs = copy.deepcopy(case)(*args, **kwargs)
        written = named("after", tensors((args, kwargs)))
        save_file({**given, **written, **named("out", tensors(outputs))}, os.path.join(folder, f"io_{i}.safetensors"))


# ── Damaged archives ──


def read_archive(path):
    with zipfile.ZipFile(path) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def write_archive(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def edited(entries, edit):
    """The archive with another program."""
    (name,) = [name for name in entries if "/models/" in name]
    program = json.loads(entries[name])
    edit(program)
    return {**entries, name: json.dumps(program).encode()}


def without(entries, end):
    return {name: data for name, data in entries.items() if not name.endswith(end)}


def replaced(entries, end, change):
    return {name: change(data) if name.endswith(end) else data for name, data in entries.items()}


def renamed(entries, change):
    return {change(name): data for name, data in entries.items()}


def graph(program):
    return program["graph_module"]["graph"]


def deep_json(depth):
    return b"[" * depth + b"]" * depth


def set_first(config, key, value):
    first = next(iter(config["config"].values()))
    target = first if key in first else first["tensor_meta"]
    target[key] = value
    return config


def weights_config(entries, key, value):
    return replaced(entries, "/model_weights_config.json",
                    lambda data: json.dumps(set_first(json.loads(data), key, value)).encode())


DAMAGE = {
    "schema_major_99": lambda e: edited(e, lambda p: p["schema_version"].update(major=99)),
    "schema_major_7": lambda e: edited(e, lambda p: p["schema_version"].update(major=7)),
    "unknown_op": lambda e: edited(e, lambda p: graph(p)["nodes"][0].update(target="torch.ops.mylib.secret.default")),
    "unknown_function": lambda e: edited(e, lambda p: graph(p)["nodes"][0].update(target="os.system")),
    "no_nodes": lambda e: edited(e, lambda p: graph(p).update(nodes=[])),
    "cyclic": lambda e: edited(e, lambda p: graph(p)["nodes"].reverse()),
    "defined_twice": lambda e: edited(e, lambda p: graph(p)["nodes"].append(graph(p)["nodes"][0])),
    "no_meta": lambda e: edited(e, lambda p: graph(p).update(tensor_values={})),
    "no_range": lambda e: edited(e, lambda p: p.update(range_constraints={})),
    "empty_range": lambda e: edited(e, lambda p: p["range_constraints"].update(
        {k: {"min_val": 9, "max_val": 3} for k in p["range_constraints"]})),
    "no_signature": lambda e: edited(e, lambda p: p["graph_module"].pop("signature")),
    "no_call_graph": lambda e: edited(e, lambda p: p["graph_module"].update(module_call_graph=[])),
    "other_outputs": lambda e: edited(e, lambda p: p["graph_module"]["signature"].update(output_specs=[])),
    "bad_guard": lambda e: edited(e, lambda p: p["guards_code"].append("__import__('os').getpid() == 1")),
    "unknown_guard_input": lambda e: edited(e, lambda p: p["guards_code"].append("L['nothing'].size()[0] == 1")),
    "custom_object": lambda e: edited(e, lambda p: graph(p)["nodes"][0]["inputs"][0].update(
        arg={"as_custom_obj": {"name": "x", "class_fqn": "y"}})),
    "not_json": lambda e: replaced(e, "/models/model.json", lambda data: data[:-5]),
    "deep_json": lambda e: replaced(e, "/models/model.json", lambda data: deep_json(100_000)),
    "no_archive_version": lambda e: without(e, "/archive_version"),
    "other_archive_version": lambda e: replaced(e, "/archive_version", lambda data: b"1"),
    "big_endian": lambda e: replaced(e, "/byteorder", lambda data: b"big"),
    "no_format": lambda e: without(e, "/archive_format"),
    "no_program": lambda e: without(e, "/models/model.json"),
    "weight_gone": lambda e: without(e, "/weight_0"),
    "weight_short": lambda e: replaced(e, "/weight_0", lambda data: data[:-4]),
    "weight_empty": lambda e: replaced(e, "/weight_0", lambda data: b""),
    "weights_config_gone": lambda e: without(e, "/model_weights_config.json"),
    "weights_not_listed": lambda e: replaced(e, "/model_weights_config.json", lambda data: b'{"config": {}}'),
    "pickled_weight": lambda e: weights_config(e, "use_pickle", True),
    "weight_elsewhere": lambda e: weights_config(e, "path_name", "../../../etc/passwd"),
    "weight_huge": lambda e: weights_config(e, "sizes", [{"as_int": 2**62}, {"as_int": 2**62}]),
    "weight_negative": lambda e: weights_config(e, "sizes", [{"as_int": -1}]),
    "weight_offset": lambda e: weights_config(e, "storage_offset", {"as_int": 2**61}),
    "weight_other_dtype": lambda e: weights_config(e, "dtype", 3),
    "weight_unknown_dtype": lambda e: weights_config(e, "dtype", 77),
    "parent_path": lambda e: {**e, "model/../../outside": b"x"},
    "absolute_path": lambda e: {**e, "/etc/outside": b"x"},
}
# What is odd, and still good.
HARMLESS = {
    "top_folder_renamed": lambda e: renamed(e, lambda name: "another name/" + name.split("/", 1)[1]),
    "no_samples": lambda e: without(e, "data/sample_inputs/model.pt"),
    "extra_files": lambda e: {**e, "model/extra/notes.txt": b"x", "__MACOSX/._x": b"y"},
    "newer_minor": lambda e: edited(e, lambda p: (p["schema_version"].update(minor=999), p.update(new_field=[1]))),
    "no_metadata": lambda e: edited(e, lambda p: [node.update(metadata={}, name=None) for node in graph(p)["nodes"]]),
    "several_programs": lambda e: {**e, "model/models/other.json": b"{}"},
}


def flip_byte(data, name):
    """One bit of the content of an entry, without a change of its checksum."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        (entry,) = [entry for entry in archive.infolist() if entry.filename.endswith(name)]
    name_size, extra_size = struct.unpack("<HH", data[entry.header_offset + 26 : entry.header_offset + 30])
    at = entry.header_offset + 30 + name_size + extra_size + entry.file_size // 2
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def make_damage(folder, programs):
    os.makedirs(folder)
    for number, program in enumerate(programs):
        good = os.path.join(folder, f"good_{number}.pt2")
        with open(program, "rb") as source, open(good, "wb") as target:
            data = source.read()
            target.write(data)
        entries = read_archive(good)
        for table in (DAMAGE, HARMLESS):
            for name, change in table.items():
                write_archive(os.path.join(folder, f"{name}_{number}.pt2"), change(entries))
        write_archive(os.path.join(folder, f"deflated_{number}.pt2"), entries, zipfile.ZIP_DEFLATED)
        bomb = replaced(entries, "/weight_0", lambda data: b"\0" * (200 << 20))
        write_archive(os.path.join(folder, f"bomb_{number}.pt2"), bomb, zipfile.ZIP_DEFLATED)
        json_bomb = replaced(entries, "/models/model.json", lambda data: data + b" " * (300 << 20))
        write_archive(os.path.join(folder, f"json_bomb_{number}.pt2"), json_bomb, zipfile.ZIP_DEFLATED)
        raw = {"cut_in_half": data[: len(data) // 2], "cut_at_end": data[:-30], "bitflip_weight": flip_byte(data, "/weight_0"),
               "bitflip_program": flip_byte(data, "/model.json"), "empty": b""}
        for name, content in raw.items():
            with open(os.path.join(folder, f"{name}_{number}.pt2"), "wb") as file:
                file.write(content)
    lists = {"damaged": [*DAMAGE, "bomb", "json_bomb", "cut_in_half", "cut_at_end", "bitflip_weight", "bitflip_program", "empty"],
             "harmless": [*HARMLESS, "deflated"]}
    with open(os.path.join(folder, "kinds.json"), "w") as file:
        json.dump(lists, file)


def make_other_files(folder):
    """Files that are no .pt2 of today."""
    os.makedirs(folder)
    torch.save({"a": torch.ones(2)}, os.path.join(folder, "saved.pt2"))
    torch.jit.script(nn.Linear(2, 2)).save(os.path.join(folder, "script.pt2"))
    save_file({"a": torch.ones(2)}, os.path.join(folder, "weights.pt2"))
    with open(os.path.join(folder, "page.pt2"), "w") as file:
        file.write("<!DOCTYPE html><html></html>")
    write_archive(os.path.join(folder, "old.pt2"), {"archive/serialized_exported_program.json": b"{}"})


def main():
    out = sys.argv[1]
    torch.manual_seed(0)
    programs = os.path.join(out, "programs")
    for name in sys.argv[2:] or [*PROGRAMS, *(f"{name}_decomposed" for name in DECOMPOSED)]:
        print(name, flush=True)
        make_program(name, os.path.join(programs, name))
    make_damage(os.path.join(out, "damage"), [os.path.join(programs, name, "model.pt2") for name in ("linear", "tied_by_passing")])
    make_other_files(os.path.join(out, "other"))
    mark_current(__file__)


if __name__ == "__main__":
    main()
