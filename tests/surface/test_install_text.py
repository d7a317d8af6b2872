"""Editing JSON as text: what is put in and taken out again leaves every other byte as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.schemas.errors import InputError
from headwater.surface import install_text
from headwater.surface.install_text import Raw, append, drop, find, parse, plain, put

NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}'),
        ('{"x": 1}', '{"x": 1, "a": {"b": [1]}}'),
        ('{"a": {"b": [0]}}', '{"a": {"b": [0, 1]}}'),
        ('{\n\t"x": 1\n}', '{\n\t"x": 1,\n\t"a": {\n\t\t"b": [\n\t\t\t1\n\t\t]\n\t}\n}'),
        ('{\r\n "x": 1\r\n}\r\n', '{\r\n "x": 1,\r\n "a": {\r\n  "b": [\r\n   1\r\n  ]\r\n }\r\n}\r\n'),
        ('{\n  "a": {"b": []}\n}', '{\n  "a": {"b": [\n    1\n  ]}\n}'),
        ('{"x": 1 // one\n}', '{"x": 1, // one\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}'),
        ('{"x": [1,],}', '{"x": [1,], "a": {"b": [1]},}'),
        ("\ufeff// c\n", '\ufeff// c\n{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}\n'),
    ],
)
def test_what_is_added_follows_the_form_of_the_file(before: str, after: str) -> None:
    """Indentation, line ends, comments, trailing commas and byte order mark stay as the file has them."""
    assert append(before, ("a", "b"), 1) == after


@settings(max_examples=25)
@given(VALUES.filter(lambda value: isinstance(value, dict)), st.sampled_from([None, 1, "\t", 4]), VALUES)
def test_adding_and_removing_is_nothing(value: dict[str, Any], indent: int | str | None, added: Any) -> None:
    """Any object in any indentation: an added member is there, all others too, and removing it gives the same bytes."""
    value.pop("ours", None)
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    more = put(text, ("ours",), added)
    assert json.loads(more) == value | {"ours": added}
    assert drop(more, ("ours",)) == text


@settings(max_examples=25)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), st.data())
def test_any_member_can_be_removed(value: dict[str, Any], data: st.DataObject) -> None:
    """Whichever member goes, what is left is the JSON of the others."""
    name = data.draw(st.sampled_from(sorted(value)))
    for indent in (None, 2):
        text = drop(json.dumps(value, indent=indent), (name,))
        assert json.loads(text) == {key: one for key, one in value.items() if key != name}


def test_comments_around_a_removed_element_stay() -> None:
    """Only the element and its comma go."""
    text = "[\n  1, // one\n  2, // two\n  /* three */ 3 // four\n]"
    assert drop(text, (1,)) == "[\n  1, // one\n   // two\n  /* three */ 3 // four\n]"
    assert drop(text, (2,)) == "[\n  1, // one\n  2 // two\n  /* three */ // four\n]"
    assert drop("[1,]", (0,)) == "[]"
    assert drop("[1, 2,]", (1,)) == "[1,]"
    assert drop('{"a": 1}', ("b",)) == '{"a": 1}'


def test_numbers_are_kept_as_they_are_written() -> None:
    """Beyond the precision of any float, and of a form that no writer would choose."""
    text = '{"big": 123456789012345678901234567890, "odd": -0.10E+05, "x": 1}'
    assert plain(text)["odd"] == Raw("-0.10E+05")
    assert put(text, ("x",), 2) == text.replace('"x": 1', '"x": 2')


def test_the_last_of_two_equal_keys_counts() -> None:
    """As in every reader of JSON."""
    text = '{"a": [1], "a": [2]}'
    assert append(text, ("a",), 3) == '{"a": [1], "a": [2, 3]}'
    assert drop(text, ("a",)) == '{"a": [1]}'


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        ('{\n"a": 1\n"b": 2}', 3, "wanted , or }"),
        ('{\n\n"a" 1}', 3, "wanted :"),
        ("{a: 1}", 1, 'wanted a key in ""'),
        ('{"a": 01}', 1, "wanted , or }"),
        ('{"a": "b\n"}', 1, "wanted a string"),
        ('{"a": "\\u12"}', 1, "wanted a string with sound escapes"),
        ("{} {}", 1, "wanted the end of the file"),
        ("{\n/* a", 2, "wanted the end of a comment"),
        ("[1, 2", 1, "wanted , or ]"),
        ("nul", 1, "wanted a value"),
        ("[" * 100_000, 0, "nested too deeply"),
    ],
)
def test_broken_files_are_refused_with_the_line(text: str, line: int, wanted: str) -> None:
    """Where it is, what was wanted, and that nothing was written."""
    with pytest.raises(InputError) as caught:
        parse(text, "settings.json")
    assert wanted in str(caught.value)
    assert f"settings.json line {line}" in str(caught.value) or not line


@pytest.mark.parametrize("text", ['{"a": []}', '{"a": 3}', "[]"])
def test_something_else_in_the_way_is_told(text: str) -> None:
    """A key that should lead on to an object and does not."""
    with pytest.raises(InputError, match="wanted another kind of value"):
        put(text, ("a", "b"), 1)


def test_values_are_found_by_keys_and_indexes() -> None:
    """A path that leads nowhere finds nothing."""
    text = '{"a": [{"b": true}, null]}'
    found = find(text, ("a", 0, "b"))
    assert found is not None
    assert (found.value, text[found.start : found.end]) == (True, "true")
    assert find(text, ("a", 5)) is None
    assert find(text, ("a", "b")) is None
    assert find("", ("a",)) is None
    assert install_text.plain("") == {}
