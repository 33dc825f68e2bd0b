"""The example's tokenizer against transformers' own, on sentences and on every character that it accepts.

usage: word_piece_check.py SENTENCE_SIMILARITY MODEL_FOLDER
"""

import random
import subprocess
import sys

from transformers import AutoTokenizer

SENTENCES = [
    "A man is playing a guitar.",
    "Don't panic: it's only 3.14159 — or 2,718!",
    "Crème brûlée, Ångström, naïve façade, Łódź, straße, ŒUVRE",
    "antidisestablishmentarianism unbelievableness xyzzyqwrt",
    "  tabs\tand\nnew lines  and a no-break\u00a0space ",
    "“Quoted”… ‘single’ ¿qué? «guillemets» 5€ £3 §4",
    "e\u0301te\u0301 decomposed, soft\u00adhyphen, zero\u200bwidth",
    "東京 is the capital of 日本",
    "a" * 101 + " " + "b" * 100,
    "user@example.com #hash_tag $5 ^_^ `code` ~tilde~ {x}|y|",
    "",
]

ACCEPTED = [(0x01, 0x17F), (0x300, 0x36F), (0x2000, 0x2027), (0x2028, 0x205F), (0x20A0, 0x20BF), (0x4E00, 0x4E40)]


def example_ids(program, vocab, sentences):
    run = subprocess.run([program, "--tokens", vocab, *sentences], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return [[int(token) for token in line.split()] for line in run.stdout.splitlines()]


def compare(program, model, sentences):
    tokenizer = AutoTokenizer.from_pretrained(model)
    actual = example_ids(program, f"{model}/vocab.txt", sentences)
    assert len(actual) == len(sentences)
    wrong = 0
    for sentence, ids in zip(sentences, actual):
        expected = tokenizer(sentence, truncation=True, max_length=256)["input_ids"]
        if ids != expected:
            wrong += 1
            print(f"{sentence!r} ({[hex(ord(c)) for c in sentence[:6]]}): expected {expected}, got {ids}")
    return wrong


def main(program, model):
    characters = [chr(code) for first, last in ACCEPTED for code in range(first, last + 1)]
    generator = random.Random(0)
    mixed = ["".join(generator.choices(characters + list("  etaoin") * 60, k=60)) for _ in range(300)]
    long = "the quick brown fox jumps over the lazy dog " * 40
    single = [f"x{character}y Z" for character in characters]
    wrong = compare(program, model, [*SENTENCES, long, *mixed, *single])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
