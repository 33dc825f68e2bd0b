"""What the makers of reference data share: a maker called again with the same scripts and arguments does nothing.

A maker is called as `python make_<name>.py OUTDIR [ARGS…]`. It calls exit_if_current(__file__) before it imports anything
slow, fills OUTDIR, and calls mark_current(__file__) at its end.
"""

import ast
import hashlib
import os
import shutil
import sys

STAMP = "made_by"


def _sources(script, found):
    """The script, and those beside it that it imports, directly or not."""
    found[script] = True
    with open(script) as file:
        statements = ast.walk(ast.parse(file.read()))
    for statement in statements:
        names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
        names += [statement.module] if isinstance(statement, ast.ImportFrom) else []
        for name in names:
            path = os.path.join(os.path.dirname(script), f"{name}.py")
            if os.path.exists(path) and path not in found:
                _sources(path, found)
    return found


def _digest(script):
    digest = hashlib.sha256()
    for path in _sources(script, {}):
        with open(path, "rb") as file:
            digest.update(file.read())
    digest.update("\0".join(sys.argv[2:]).encode())
    digest.update(sys.version.encode())
    return digest.hexdigest()


def exit_if_current(script):
    """Ends the process when OUTDIR is what this script would make; else empties it."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} OUTDIR [ARGS…]")
    stamp = os.path.join(sys.argv[1], STAMP)
    if os.path.exists(stamp):
        with open(stamp) as file:
            if file.read() == _digest(script):
                sys.exit(0)
        shutil.rmtree(sys.argv[1])
    os.makedirs(sys.argv[1], exist_ok=True)


def mark_current(script):
    with open(os.path.join(sys.argv[1], STAMP), "w") as file:
        file.write(_digest(script))
