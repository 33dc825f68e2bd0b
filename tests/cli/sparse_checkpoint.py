"""An export reads no weights: python sparse_checkpoint.py HFX.

Exports BERT checkpoints of 40 GB whose weights are holes in a file: one huge table, and many layers in several shards. The
export may take 500 MB of memory, a good part of which is libtorch itself, and the weights it writes are holes too. The time
is printed, not judged. Conversion to half precision takes no more memory, also where there are bytes to convert.

Only the standard library is imported: a process's peak memory starts with that of the process which forks it.
"""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

PEAK_LIMIT = 500e6
# What the file system may spend on a file of holes: the header and graph, and maps of extents.
DISK_LIMIT = 50e6
SIZE = 40e9
DENSE_SIZE = 600e6
WEIGHTS = {"onnx": "model.onnx.data", "dynamo": "model.pt2"}


def parameters(config):
    """Name and shape of each parameter of BertModel."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]

    def linear(name, outputs, inputs):
        return {f"{name}.weight": [outputs, inputs], f"{name}.bias": [outputs]}

    def norm(name):
        return {f"{name}.weight": [hidden], f"{name}.bias": [hidden]}

    result = {
        "embeddings.word_embeddings.weight": [config["vocab_size"], hidden],
        "embeddings.position_embeddings.weight": [config["max_position_embeddings"], hidden],
        "embeddings.token_type_embeddings.weight": [config["type_vocab_size"], hidden],
        **norm("embeddings.LayerNorm"),
    }
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for name in ("query", "key", "value"):
            result |= linear(f"{layer}.attention.self.{name}", hidden, hidden)
        result |= linear(f"{layer}.attention.output.dense", hidden, hidden) | norm(f"{layer}.attention.output.LayerNorm")
        result |= linear(f"{layer}.intermediate.dense", inner, hidden)
        result |= linear(f"{layer}.output.dense", hidden, inner) | norm(f"{layer}.output.LayerNorm")
    return result | linear("pooler.dense", hidden, hidden)


def write_shard(path, shapes, dense=False):
    """A safetensors file with a header, and a hole for the data, or ones. Returns the bytes of the data."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 4
        for dim in shape:
            size *= dim
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if dense:
            ones = struct.pack("<f", 1) * (1 << 18)
            for start in range(0, offset, len(ones)):
                file.write(ones[:offset - start])
        file.truncate(8 + len(text) + offset)
    return offset


def write_checkpoint(folder, settings, shards, dense):
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 0, "dtype": "float32", **settings,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    shapes = parameters(config)
    if shards == 1:
        return write_shard(folder / "model.safetensors", shapes, dense)
    names = list(shapes)
    total, where = 0, {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = names[number::shards]
        total += write_shard(folder / file, {name: shapes[name] for name in part})
        where |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


CASES = {
    "one huge table": dict(vocab_size=9_900_000, hidden_size=1024, num_hidden_layers=2, num_attention_heads=16,
                           intermediate_size=4096, shards=1),
    "many layers in shards": dict(vocab_size=32_000, hidden_size=4096, num_hidden_layers=50, num_attention_heads=32,
                                  intermediate_size=16_384, shards=4),
    "many layers in shards, as float16": dict(vocab_size=32_000, hidden_size=4096, num_hidden_layers=50,
                                              num_attention_heads=32, intermediate_size=16_384, shards=4,
                                              dtype="float16"),
    # Larger than the memory that it may take.
    "one huge table, as .pt2": dict(vocab_size=9_900_000, hidden_size=1024, num_hidden_layers=2, num_attention_heads=16,
                                    intermediate_size=4096, shards=1, to="dynamo"),
    "many layers in shards, as .pt2 in float16": dict(vocab_size=32_000, hidden_size=4096, num_hidden_layers=50,
                                                      num_attention_heads=32, intermediate_size=16_384, shards=4,
                                                      dtype="float16", to="dynamo"),
    "bytes to convert to bfloat16": dict(vocab_size=160_000, hidden_size=1024, num_hidden_layers=1,
                                         num_attention_heads=16, intermediate_size=4096, shards=1, dtype="bfloat16",
                                         dense=True),
    "bytes to convert to float16 in a .pt2": dict(vocab_size=160_000, hidden_size=1024, num_hidden_layers=1,
                                                  num_attention_heads=16, intermediate_size=4096, shards=1,
                                                  dtype="float16", dense=True, to="dynamo"),
}


def check_archive(path, size):
    """Sizes and offsets beyond 4 GB are where zip programs look for them."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        assert sum(entry.file_size for entry in entries) <= size < sum(entry.file_size + 8192 for entry in entries), size
        last = max(entries, key=lambda entry: entry.header_offset)
        assert archive.read(last), last.filename


def check(hfx, work, settings):
    shards, dtype, dense = settings.pop("shards"), settings.pop("dtype", None), settings.pop("dense", False)
    to = settings.pop("to", "onnx")
    checkpoint, out = work / "checkpoint", work / "out"
    total = write_checkpoint(checkpoint, settings, shards, dense)
    assert total > (DENSE_SIZE if dense else SIZE), total
    command = [hfx, "export", checkpoint, "--to", to, "-o", out] + (["--dtype", dtype] if dtype else [])
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak = usage.ru_maxrss * 1024
    assert process.returncode == 0, process.returncode
    data = (out / WEIGHTS[to]).stat()
    print(f"  {total / 1e9:.1f} GB in {time.monotonic() - start:.1f} s, peak memory {peak / 1e6:.0f} MB, "
          f"{data.st_size / 1e9:.1f} GB written on {data.st_blocks * 512 / 1e6:.1f} MB of disk")
    assert peak < PEAK_LIMIT, peak
    assert data.st_size >= (total // 2 if dtype else total) * 0.999, data.st_size
    if to == "dynamo":
        check_archive(out / WEIGHTS[to], data.st_size)
    assert dense or data.st_blocks * 512 < DISK_LIMIT, data.st_blocks * 512


def check_interrupt(hfx, work):
    """What a user stops leaves nothing behind."""
    checkpoint, out = work / "checkpoint", work / "out"
    settings = dict(CASES["bytes to convert to bfloat16"])
    write_checkpoint(checkpoint, {key: settings[key] for key in settings if key not in ("shards", "dtype", "dense")}, 1, True)
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([hfx, "export", checkpoint, "--to", "onnx", "-o", out, "--dtype", "bfloat16"],
                                   stdout=subprocess.DEVNULL)
        while process.poll() is None and not any(work.glob(".out.partial-*")):
            time.sleep(0.001)
        process.send_signal(number)
        assert process.wait() == -number, process.returncode
        assert [path.name for path in work.iterdir()] == ["checkpoint"], list(work.iterdir())


def main():
    with tempfile.TemporaryDirectory() as work:
        check_interrupt(sys.argv[1], pathlib.Path(work))
    for name, settings in CASES.items():
        print(name)
        with tempfile.TemporaryDirectory() as work:
            check(sys.argv[1], pathlib.Path(work), dict(settings))


if __name__ == "__main__":
    main()
