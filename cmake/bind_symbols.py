"""Copies of shared libraries that look for symbols in themselves first, as dlopen's RTLD_DEEPBIND would make them.

usage: bind_symbols.py FOLDER LIBRARY…

For sanitizer builds, in which RTLD_DEEPBIND is refused. Sets DT_SYMBOLIC in one of the unused entries that linkers leave
at the end of the dynamic section of 64-bit ELF files (https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html).
"""

import pathlib
import struct
import sys

PT_DYNAMIC = 2
DT_NULL = 0
DT_SYMBOLIC = 16


def bind(data):
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    (headers,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for header in range(headers, headers + size * count, size):
        kind, _, offset, _, _, nbytes = struct.unpack_from("<IIQQQQ", data, header)
        if kind == PT_DYNAMIC:
            tags = [struct.unpack_from("<q", data, offset + at)[0] for at in range(0, nbytes, 16)]
            end = tags.index(DT_NULL)
            if end + 1 == len(tags):
                raise ValueError("no unused entry in the dynamic section")
            struct.pack_into("<qQ", data, offset + 16 * end, DT_SYMBOLIC, 0)
            return
    raise ValueError("no dynamic section")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for library in map(pathlib.Path, sys.argv[2:]):
        data = bytearray(library.read_bytes())
        try:
            bind(data)
        except ValueError as error:
            sys.exit(f"bind_symbols: {library}: {error}")
        (folder / library.name).write_bytes(data)


main()
