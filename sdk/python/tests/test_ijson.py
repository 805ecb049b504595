"""The fast way of reading JSON accepts nothing that the slow one refuses, and reads the same."""

from __future__ import annotations

import base64
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from counterfoil import ijson, jcs
from counterfoil.errors import JsonError

VECTORS = Path(__file__).resolve().parents[3] / "vectors/ijson.json"


def answer(read: Any, text: str) -> tuple[str, Any]:
    try:
        return "value", read(text)
    except JsonError as error:
        return error.code, None


def test_the_two_ways_agree_on_texts_that_are_nearly_json() -> None:
    dice = random.Random(7)
    seeds = []
    for case in json.loads(VECTORS.read_text("utf-8"))["cases"]:
        data = base64.b64decode(case["text_b64"])
        if len(data) < 400:
            seeds.append(data.decode("utf-8", "replace"))
    pieces = ['"', "\\", "u", "d800", "\\udc00", "{", "}", "[", "]", ",", ":", "1", "-", ".", "e", "0", " ", "\n", "\x00", "\ufffe", "٣", "NaN", "true", "9007199254740993"]  # fmt: skip
    read = 0
    for _ in range(20_000):
        text = dice.choice(seeds)
        for _ in range(dice.randrange(3)):
            at = dice.randrange(len(text) + 1)
            cut = dice.randrange(2)
            text = text[:at] + dice.choice(pieces) + text[at + cut :]
        fast, slow = answer(ijson.parse_value, text), answer(lambda t: ijson._Slow(t).document(), text)
        assert fast == slow, text
        read += fast[0] == "value"
    assert read > 1_000


def test_what_is_written_reads_back() -> None:
    dice = random.Random(8)
    for _ in range(3_000):
        number = dice.choice(
            [
                dice.uniform(-1e6, 1e6),
                math.ldexp(dice.random(), dice.randrange(-1070, 52)),
                dice.randrange(-(2**53) + 1, 2**53),
            ]
        )
        text = jcs.canonical(number)
        assert ijson.parse_value(text) == number
        assert "E" not in text
        assert not text.endswith(".0")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, {1: 2}, {"a": {1}}, "\ud800", "\ufffe", b"x"])
def test_what_no_reader_reads_alike_is_not_written(value: object) -> None:
    with pytest.raises(JsonError):
        jcs.canonical({"x": [value]})
    with pytest.raises(JsonError):
        jcs.compact({"x": [value]})
