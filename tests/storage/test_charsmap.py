from __future__ import annotations

import base64
import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE

from headwater.storage.charsmap import build_charsmap

# one character each, none that joins the one before it: of such a group the library looks at the beginning
PLAIN = st.characters(min_codepoint=1, categories=["L", "N", "S", "Zs"]).filter(
    lambda character: unicodedata.combining(character) == 0
)


def normaliser(charsmap: bytes) -> object:
    """Return the library's reader of a charsmap."""
    made = json.loads(Tokenizer(BPE()).to_str())
    made["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    return Tokenizer.from_str(json.dumps(made)).normalizer


@given(
    st.dictionaries(PLAIN, st.text(PLAIN, max_size=3), min_size=1, max_size=300), st.text(PLAIN, max_size=20)
)
def test_every_character_is_replaced(replacements: dict[str, str], other: str) -> None:
    """The library reads back each replacement, also an empty one, and leaves other characters alone."""
    found = normaliser(build_charsmap(replacements))
    for character in [*replacements, *other]:
        assert found.normalize_str(character) == replacements.get(character, character)  # type: ignore[attr-defined]


def test_the_same_map_gives_the_same_bytes() -> None:
    """The order in which replacements are named does not matter."""
    pairs = {"Ａ": "A", "\u3000": " ", "\x07": "", "①": "1", "½": "1⁄2"}
    assert build_charsmap(pairs) == build_charsmap(dict(reversed(pairs.items())))
