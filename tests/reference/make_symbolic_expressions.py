"""Writes tests/data/symbolic/expressions.json: expressions as torch.export 2.13 prints them, with values.

Each entry has the notations of sympy's str and srepr and, as guards have it, of Python code ("python"; null for what has
no operator there), and what torch's own functions give at a few points.
Usage: python tests/reference/make_symbolic_expressions.py > tests/data/symbolic/expressions.json
"""

import json
import random

import sympy
from sympy import And, Eq, Ge, Gt, Le, Lt, Ne, Not, Or
from torch.utils._sympy.functions import (
    CeilDiv,
    CeilToInt,
    CleanDiv,
    FloatTrueDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    LShift,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PowByNatural,
    PythonMod,
    RShift,
    ToFloat,
    TruncToInt,
)
from torch.utils._sympy.printers import PythonPrinter

s0, s1, s77 = (sympy.Symbol(n, positive=True, integer=True) for n in ("s0", "s1", "s77"))
u0, u1 = (sympy.Symbol(n, integer=True) for n in ("u0", "u1"))

EXPRESSIONS = [
    sympy.Integer(0),
    sympy.Integer(-7),
    s77,
    u0,
    -s0,
    2 * s0 + 1,
    1 - s0,
    s0 * s1,
    3 * s0**2 - 2 * s1 + 5,
    s0**2 * u0 + s0 * u0 + u0 + 7,
    (s0 + 1) * (s1 - 2),
    sympy.expand((s0 + 1) * (s1 - 2)),
    4 * (s0 + s1),
    FloorDiv(s0, 2),
    FloorDiv(3 * s0 + 1, s1),
    FloorDiv(s0 - 1, 2) * 2 + s0,
    FloorDiv(FloorDiv(s0, 2), 3),
    FloorDiv(-s0, 2),
    FloorDiv(u0 - 5, 4),
    3 - FloorDiv(s0, 2),
    FloorDiv(s0 * s1, s1 + 1),
    CleanDiv(s0 * 6, 4),
    CleanDiv(s0, 2),
    CeilDiv(s0, 2),
    CeilDiv(s0 + s1, 8),
    Mod(s0, 2),
    Mod(s0 * s1, 4),
    Mod(s0 + 3, s1),
    PythonMod(u0, 3),
    PythonMod(-s0, 8),
    PythonMod(u0, u1),
    ModularIndexing(s0, 2, 3),
    Max(1, u0),
    Max(s0, s1) + 2 * Min(3, s0),
    Min(s0, s1, 3),
    Max(0, Min(s0, u0 + 4)),
    PowByNatural(s0, 3),
    PowByNatural(s0 + 1, 2),
    CeilToInt(IntTrueDiv(s0, 2)),
    CeilToInt(IntTrueDiv(s0 + 5, 7)),
    FloorToInt(IntTrueDiv(s0, 3)),
    FloorToInt(IntTrueDiv(u0, 3)),
    TruncToInt(IntTrueDiv(s0, 2)),
    TruncToInt(IntTrueDiv(u0, 3)),
    TruncToInt(FloatTrueDiv(ToFloat(s0), sympy.Float(2.0))),
    TruncToInt(ToFloat(s0) * 2.5),
    TruncToInt(ToFloat(s0) * 0.1),
    TruncToInt(ToFloat(s0) * 2.0),
    FloorToInt(ToFloat(s0) * 1.3),
    TruncToInt(ToFloat(s0 + 2 * s1) * 0.7),
    Mod(FloorDiv(s0 + 1, 2) * s1, 3) - Max(s0, 2 * s1),
    sympy.Abs(u0 - 3),
    LShift(s0 + 1, 3),
    RShift(s0 * s1, 2),
    FloorToInt(s0 / sympy.Integer(3)),
    CeilToInt((s0 + 1) / (2 * s1)),
]

CONDITIONS = [
    sympy.true,
    sympy.false,
    Eq(s0, s1),
    Eq(u0, 0),
    Ne(s0, 1),
    Ne(FloorDiv(u0, 2), 3),
    Le(s0, 6),
    Lt(s0, 6),
    Ge(s0, 2),
    Gt(s0, 1),
    Le(2 * s0 + 1, s1),
    Lt(s0 - s1, 4),
    Le(-s0, -3),
    Eq(Mod(s0, 2), 0),
    Eq(PythonMod(u0, 3), 2),
    Not(Eq(u0, 3)),
    And(Lt(s0, 5), Ne(s1, 3)),
    Or(Lt(s0, 5), Eq(s1, 3)),
    Or(And(Lt(s0, 5), Ne(s1, 3)), Ge(u0, u1)),
    And(Or(Lt(s0, 5), Ge(s1, 3)), Not(And(Eq(u0, 1), Le(u1, s0)))),
]


def value(expression, point):
    result = expression.xreplace({symbol: sympy.Integer(point[symbol.name]) for symbol in expression.free_symbols})
    result = result.doit()
    return bool(result) if isinstance(result, sympy.logic.boolalg.BooleanAtom) else int(result)


def python_code(expression):
    """As torch prints it for guards; None where that is an identifier of its own."""
    try:
        text = PythonPrinter().doprint(expression)
    except (AssertionError, NotImplementedError, TypeError):
        return None
    return None if "Where(" in text or "PowByNatural" in text else text


def main():
    random.seed(0)
    entries = []
    for expression in EXPRESSIONS + CONDITIONS:
        points = []
        for _ in range(8):
            point = {n: random.randint(1, 12) for n in ("s0", "s1", "s77")}
            point |= {n: random.choice([i for i in range(-12, 13) if i]) for n in ("u0", "u1")}
            points.append({"at": point, "value": value(expression, point)})
        notations = {"str": str(expression), "srepr": sympy.srepr(expression), "python": python_code(expression)}
        entries.append({**notations, "points": points})
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    print(f"[\n{lines}\n]")


main()
