"""Writes the fixtures of tests/weights with the safetensors package: python make_weights.py [folder]."""

import io
import json
import pathlib
import struct
import sys
import zipfile

import numpy as np
import torch
from safetensors.torch import save_file

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data" / "weights")

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e8m0fnu,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.int16, torch.uint16, torch.float16, torch.bfloat16,
    torch.int32, torch.uint32, torch.float32, torch.complex64, torch.float64, torch.int64, torch.uint64,
]  # fmt: skip


def values(dtype):
    if dtype == torch.bool:
        return torch.tensor([[True, False, True], [False, False, True]])
    if dtype == torch.complex64:
        return torch.tensor([[1 + 2j, 0, -1j], [3, 4j, -5 - 6j]], dtype=dtype)
    if dtype.is_floating_point:
        numbers = [[1.0, 2.0, 4.0], [0.5, 8.0, 16.0]] if dtype == torch.float8_e8m0fnu else [[0.0, 1.5, -2.0], [3.5, -0.25, 16.0]]
        return torch.tensor(numbers).to(dtype)
    top = torch.iinfo(dtype).max
    top = top if dtype != torch.uint64 else 2**53  # exact as a double, which the tests compare
    return torch.tensor([[0, 1, 2], [3, 100, min(top, 2**53)]], dtype=torch.float64).to(dtype)


def dump(tensor):
    if tensor.dtype == torch.complex64:
        return torch.view_as_real(tensor).double().flatten().tolist()
    return tensor.double().flatten().tolist()


def all_dtypes():
    tensors = {str(d).removeprefix("torch."): values(d) for d in DTYPES}
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 4)
    save_file(tensors, FOLDER / "all_dtypes.safetensors", metadata={"format": "pt"})
    expected = {n: {"shape": list(t.shape), "values": dump(t)} for n, t in tensors.items()}
    (FOLDER / "all_dtypes.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def write_raw(name, header, data, shift=0):
    """A file as the package would not write it, its header `shift` bytes longer than a multiple of eight."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8 + shift)
    (FOLDER / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


def misaligned():
    """Floats one byte behind a multiple of four: in the data, and because of the header's length alone."""
    floats = struct.pack("<3f", 1.0, 2.0, 3.0)
    write_raw("misaligned.safetensors",
              {"byte": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
               "floats": {"dtype": "F32", "shape": [3], "data_offsets": [1, 13]}}, b"\7" + floats)
    write_raw("odd_header.safetensors",
              {"floats": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}, floats, shift=1)


NUMPY_DTYPES = "?,u1,i1,<u2,<i2,<u4,<i4,<u8,<i8,<f2,<f4,<f8,<c8,<c16,>i4,>f4,>f8,>c8".split(",")


def numpy_archive(name, arrays):
    """As numpy.savez writes it, but for the time stamps: the same file every time."""
    with zipfile.ZipFile(FOLDER / name, "w", zipfile.ZIP_DEFLATED if "deflated" in name else zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array)
            info = zipfile.ZipInfo(key + ".npy")
            info.compress_type = archive.compression
            with archive.open(info, "w", force_zip64=True) as entry:
                entry.write(buffer.getvalue())


def numpy_files():
    arrays = {d.replace("<", "").replace(">", "big_").replace("?", "bool"): np.array([[0, 1, 2], [3, 100, 77]]).astype(d) for d in NUMPY_DTYPES}
    arrays["fortran"] = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    arrays["scalar"] = np.array(2.5)
    arrays["empty"] = np.zeros((0, 4), dtype=np.int64)
    arrays["long"] = np.zeros(100_000, dtype=np.int32)  # packs at the best ratio that deflate has
    for name in ["arrays_stored.npz", "arrays_deflated.npz"]:
        numpy_archive(name, {k: v for k, v in arrays.items() if k != "long" or "deflated" in name})
    np.save(FOLDER / "array.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(FOLDER / "strings.npy", np.array(["a", "b"]))
    np.save(FOLDER / "objects.npy", np.array([None, {}], dtype=object), allow_pickle=True)
    np.save(FOLDER / "records.npy", np.array([(1, 2.0)], dtype=[("x", "i4"), ("y", "f8")]))
    expected = {}
    for name, array in arrays.items():
        flat = array.flatten().astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        values = flat.view(np.float64).tolist()
        expected[name] = {"shape": list(array.shape), "values": values if name != "long" else []}
    (FOLDER / "arrays.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    all_dtypes()
    misaligned()
    numpy_files()


if __name__ == "__main__":
    main()
