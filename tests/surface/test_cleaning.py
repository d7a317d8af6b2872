"""What cleaning does to size and form of a payload."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from headwater.schemas import limits
from headwater.surface import cleaning, hook
from headwater.surface.hook import clean_payload


def test_limits_are_those_of_the_schemas() -> None:
    """The hook's copies of the limits are equal to the originals."""
    assert hook.CLIP_CHARS == limits.CLIP_CHARS
    assert hook.ENVELOPE_TEXT_CHARS == limits.ENVELOPE_TEXT_CHARS
    assert hook.NESTING_MAX == limits.NESTING_MAX
    assert hook.FILE_NAME_CHARS == limits.FILE_NAME_CHARS


def test_long_text_keeps_head_and_tail() -> None:
    """The middle of a long text goes, with its length said and listed."""
    text = "start " + "w " * 100_000 + " end"
    cleaned, clipped = clean_payload({"tool_response": {"stdout": text}})
    result = cleaned["tool_response"]["stdout"]
    missing = len(text) - len(result) + len("… [ characters clipped] …") + len("134506")

    assert result.startswith("start w w")
    assert result.endswith("w w  end")
    assert f"… [{missing} characters clipped] …" in result
    assert clipped == {"tool_response.stdout": len(text)}


def test_all_texts_together_are_bounded() -> None:
    """Many long texts share the room; short ones beside them stay whole."""
    cleaned, clipped = clean_payload({"short": "hello", "many": ["w " * 30_000] * 40})

    assert cleaned["short"] == "hello"
    assert sum(map(len, cleaned["many"])) <= hook.ENVELOPE_TEXT_CHARS
    assert all(len(text) > 1000 for text in cleaned["many"])
    assert clipped["many[39]"] == 60_000


@pytest.mark.parametrize("wrapped", [False, True])
def test_base64_becomes_size_and_hash(wrapped: bool) -> None:
    """An image is kept as its size and hash, whole, in lines or as a data URI."""
    data = bytes(range(256)) * 40
    placeholder = f"[base64 10240 bytes sha256:{hashlib.sha256(data).hexdigest()[:12]}]"
    text = (base64.encodebytes if wrapped else base64.b64encode)(data).decode()
    cleaned, clipped = clean_payload(
        {"file": {"base64": text}, "uri": f"see data:image/png;base64,{text} there"}
    )

    assert cleaned["file"]["base64"] == placeholder
    assert clipped["file.base64"] == len(text)
    if not wrapped:
        assert cleaned["uri"] == f"see {placeholder} there"


@pytest.mark.parametrize("text", ["x" * 5000, "0123456789abcdef" * 40, "word\n" * 500, "/usr/lib" * 60])
def test_long_words_are_no_base64(text: str) -> None:
    """One letter repeated, hex, and lists of words are text."""
    assert clean_payload({"x": text}) == ({"x": text}, {})


def test_whole_old_file_of_an_edit_is_dropped() -> None:
    """The old file of an edit becomes null, its length is listed."""
    response = {"filePath": "/r/a.py", "originalFile": "x = 1\n" * 10, "structuredPatch": []}
    cleaned, clipped = clean_payload({"tool_name": "Edit", "tool_response": response})

    assert cleaned["tool_response"] == {
        "filePath": "/r/a.py",
        "originalFile": None,
        "structuredPatch": [],
    }
    assert clipped == {"tool_response.originalFile": 60}


def test_deep_and_wide_values_are_bounded() -> None:
    """Nesting and number of values have an end, and nothing raises."""
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    cleaned, clipped = clean_payload({"deep": deep, "wide": list(range(50_000)), "keys": {"k" * 9999: 1}})

    assert "nested deeper" in json.dumps(cleaned["deep"])
    assert len(cleaned["wide"]) < cleaning.VALUES_MAX
    assert clipped["wide"] == 50_000


def test_lone_surrogates_become_replacement_characters() -> None:
    """A text cut between two UTF-16 units can be written as UTF-8, whole pairs stay."""
    cleaned, _ = clean_payload({"a\udc00": "x\ud83d", "b": "😀\x00"})

    assert cleaned == {"a�": "x�", "b": "😀\x00"}


@pytest.mark.parametrize(
    "block",
    [
        "<headwater-context>old\nnews</headwater-context>",
        '<headwater-context project="p">old</headwater-context>',
        "<system-reminder>\nhook: <headwater-context>old</headwater-context>\n</system-reminder>",
        "\n<headwater-context>old, and cut off",
    ],
)
def test_our_injected_text_is_never_captured(block: str) -> None:
    """What we told the agent is taken out of what it says; other reminders stay."""
    other = "<system-reminder>x</system-reminder>"
    cleaned, _ = clean_payload({"prompt": f"before {other}{block}"})

    assert cleaned["prompt"].rstrip() == f"before {other}"
