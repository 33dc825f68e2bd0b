"""Prints a table in markdown: which ONNX operators an op becomes, from which opset, and what is refused.

usage: onnx_operators.py --hfx HFX --models DIR

Operators come from the models that the tests of the room onnx wrote to DIR (EXPORTERS_ONNX_MODELS): a node is named after
the op that it was made for. Opsets come from the table (`hfx stages onnx --json`), limits from what the translations say
when they refuse a call. Ops that no model has are listed on standard error."""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "exporters" / "onnx" / "translations"

HEAD = "| op | ONNX | opset | limits |\n|---|---|---|---|\n"


def table(hfx):
    """op → opsets that have an entry of their own."""
    stages = json.loads(subprocess.run([hfx, "stages", "onnx", "--json"], check=True, capture_output=True).stdout)
    entries = next(stage["entries"] for stage in stages if stage["number"] == 4)
    ops = collections.defaultdict(list)
    for entry in entries:
        op, _, opset = entry["name"].partition(" from opset ")
        ops[op].append(int(opset or 18))
    return ops


def base_name(node):
    """ "encoder/layer/0/add_1" → "add" """
    return re.sub(r"(_\d+)?(\.\d+)?$", "", node.rsplit("/", 1)[-1])


def graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from graphs(inner)


def operators(folder):
    """What nodes are named after → the operators of such nodes."""
    found = collections.defaultdict(set)
    for path in sorted(folder.rglob("*.onnx")):
        model = onnx.load(str(path), load_external_data=False)
        for graph in graphs(model.graph):
            for node in graph.node:
                if node.op_type != "Identity":
                    found[base_name(node.name)].add(node.op_type)
    return found


def functions(text):
    """Name → body of the functions in a source file."""
    bodies = {}
    for match in re.finditer(r"^[\w:<>&,\s*\[\]]*?\b(\w+)\([^;{}]*\)(?: const)? \{\n(.*?)^\}", text, re.M | re.S):
        bodies[match.group(1)] = match.group(2)
    return bodies


def strings(call):
    """The text of the first argument of refuse(…), where it is one: neighbouring literals, formatted or not."""
    match = re.match(r'\s*(?:fmt::format\(\s*)?((?:"(?:[^"\\]|\\.)*"\s*)+)', call)
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match.group(1))) if match else None


def refusals(name, bodies, seen):
    if name in seen or name not in bodies:
        return []
    seen.add(name)
    texts = []
    for match in re.finditer(r"refuse\(|\b(\w+)\s*(?:<[^;()]*>)?\(", bodies[name]):
        if match.group(0).startswith("refuse"):
            text = strings(bodies[name][match.end():])
            texts += [text] if text else []
        elif match.group(1) in bodies:
            texts += refusals(match.group(1), bodies, seen)
    return texts


def limits():
    """op → what its translation refuses."""
    result = collections.defaultdict(list)
    for path in sorted(SOURCES.glob("*.cpp")):
        text = path.read_text()
        bodies = functions(text)
        for op, function in re.findall(r'^\s*\{"([\w.]+)", \d+, (\w+)', text, re.M):
            for refusal in refusals(function, bodies, set()):
                if refusal not in result[op]:
                    result[op].append(refusal)
    return result


def page(hfx, models):
    found = operators(models)
    refused = limits()
    lines = []
    missing = []
    for op, opsets in sorted(table(hfx).items()):
        name = op.split(".")[1]
        if name not in found:
            missing.append(op)
        later = ", ".join(str(opset) for opset in sorted(opsets)[1:])
        what = "; ".join(refused.get(op, [])).replace("|", "\\|")
        lines.append(f"| `{op}` | {', '.join(sorted(found.get(name, set())))} | {later} | {what} |")
    return HEAD + "\n".join(lines) + "\n", missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfx", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    options = parser.parse_args()
    text, missing = page(options.hfx, options.models)
    for op in missing:
        print(f"{op}: no model has it", file=sys.stderr)
    print(text, end="")


if __name__ == "__main__":
    main()
