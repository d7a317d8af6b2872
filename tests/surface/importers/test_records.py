from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_lines import DATA

from headwater.schemas.errors import InputError
from headwater.surface.importers import records
from headwater.surface.importers.records import (
    Format,
    count_records,
    file_format,
    find_files,
    format_of,
    read_records,
)

HOOK = {"session_id": "s", "hook_event_name": "Stop"}
ENVELOPE = {"v": 1, "agent": "a", "payload": HOOK}


def file(folder: Path, data: str | bytes, name: str = "a.json") -> Path:
    """Write a file, gzipped when it is named so."""
    path = folder / name
    raw = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def values(path: Path) -> list[Any]:
    """Return the values of a file's records."""
    return [record.value for record in read_records(path)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz", "a.json.gz"])
@pytest.mark.parametrize(
    "text", ['{"a":1}\n{"b":2}\n', '[{"a":1},{"b":2}]', '[\n {"a": 1},\n {"b": 2}\n]\n', '{"a":1}\n{"b":2}']
)
def test_lines_and_arrays_plain_or_gzipped(tmp_path: Path, name: str, text: str) -> None:
    """Records are read alike from lines and arrays, whatever the file is called."""
    assert values(file(tmp_path, text, name)) == [{"a": 1}, {"b": 2}]


def test_line_offsets_are_bytes(tmp_path: Path) -> None:
    """A line's record says at which byte it begins, also behind text of several bytes a character."""
    lines = ['{"a":"한국어"}', "", '{"b":2}{"c":3}']
    found = list(read_records(file(tmp_path, "\n".join(lines) + "\n")))
    start = len(lines[0].encode()) + 2
    assert [(record.offset, record.n) for record in found] == [(0, 0), (start, 1), (start + 7, 2)]


def test_array_records_are_numbered(tmp_path: Path) -> None:
    """An element's place is its number."""
    found = list(read_records(file(tmp_path, '[{"a":1},{"b":2}]')))
    assert [(record.offset, record.n) for record in found] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("text", ['{"a":1}\n', '[{"a":1}]'])
def test_byte_order_mark_is_passed_over(tmp_path: Path, text: str) -> None:
    """Files of Windows editors begin with a mark."""
    assert values(file(tmp_path, b"\xef\xbb\xbf" + text.encode())) == [{"a": 1}]


@pytest.mark.parametrize("text", ["", "\n\n", "[]", " [ ] ", "\x00\x00"])
def test_empty_file_has_no_records(tmp_path: Path, text: str) -> None:
    """A file without content is no error."""
    path = file(tmp_path, text)
    assert values(path) == []
    assert count_records(path) == 0
    assert file_format(path) is Format.UNKNOWN


def test_garbage_lines_are_records_of_text(tmp_path: Path) -> None:
    """What is no JSON is kept as text, the lines around it are read."""
    assert values(file(tmp_path, '{"a":1}\nrubbish\n{"b":2} rest\n{"c":')) == [
        {"a": 1}, "rubbish", {"b": 2}, "rest", '{"c":',
    ]  # fmt: skip


def test_garbage_in_an_array_costs_itself(tmp_path: Path) -> None:
    """The elements behind a broken one are read."""
    text = '[{"a":1}, {"b": oops}, {"c":3}, {"d":' + "[" * 5000 + '}, {"e":5}]'
    found = values(file(tmp_path, text))
    assert [value for value in found if isinstance(value, dict)] == [{"a": 1}, {"c": 3}, {"e": 5}]
    assert any("oops" in value for value in found if isinstance(value, str))


def test_torn_array_keeps_what_is_whole(tmp_path: Path) -> None:
    """An array that was cut off gives its whole elements and the torn rest as text."""
    assert values(file(tmp_path, '[{"a":1},{"b":')) == [{"a": 1}, '{"b":']


def test_object_over_several_lines_is_one_record(tmp_path: Path) -> None:
    """A single payload written for people to read is read."""
    assert values(file(tmp_path, json.dumps(HOOK, indent=2))) == [HOOK]


def test_element_bigger_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge element between small ones is read whole, wherever chunks end."""
    big = {"text": "한" * 3_000_000}
    assert values(file(tmp_path, json.dumps([HOOK, big, HOOK], ensure_ascii=False))) == [HOOK, big, HOOK]
    for size in (1, 2, 3, 7, 64):
        monkeypatch.setattr(records, "_CHUNK_BYTES", size)
        text = '[1, -2.5e3, "x\\u00e9y한", true, null, {"a": [1, {"b": false}]}, 12345]'
        assert values(file(tmp_path, "\n" + text)) == json.loads(text)


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers(), max_size=3), max_size=8
    ),
    st.booleans(),
)
def test_any_records_round_trip(
    tmp_path_factory: pytest.TempPathFactory, made: list[Any], ascii_only: bool
) -> None:
    """Whatever objects are written, as an array or as lines, they are read back."""
    folder = tmp_path_factory.mktemp("r")
    array = json.dumps(made, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert values(file(folder, array)) == json.loads(array.decode("utf-8", "replace"))
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in made)
    assert values(file(folder, lines, "b.jsonl")) == made


@given(st.binary(max_size=300))
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Any bytes give records, as lines or as an array."""
    folder = tmp_path_factory.mktemp("r")
    for start in (b"", b"[", b"{\n"):
        assert isinstance(values(file(folder, start + data)), list)


GZIPPED = gzip.compress(b"x" * 5000, mtime=0)


@pytest.mark.parametrize(
    "data", [b"no gzip", GZIPPED[:30], GZIPPED[:15] + b"\xff" * 30], ids=["foreign", "torn", "overwritten"]
)
def test_damaged_gzip_is_said(tmp_path: Path, data: bytes) -> None:
    """A file that cannot be unpacked is named, with what to check."""
    path = tmp_path / "a.json.gz"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.json\.gz.*cannot be read"):
        values(path)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (ENVELOPE, Format.ENVELOPE),
        (ENVELOPE | {"v": 2}, Format.UNKNOWN),
        ({"received_at_ns": 1, "payload": HOOK}, Format.STAMPED),
        (HOOK, Format.HOOK),
        ({"uuid": "u", "sessionId": "s", "type": "user"}, Format.CLAUDE),
        ({"type": "summary", "summary": "x", "leafUuid": "u"}, Format.CLAUDE),
        ({"timestamp": "t", "type": "session_meta", "payload": {}}, Format.CODEX),
        ({"a": 1}, Format.UNKNOWN),
        ("text", Format.UNKNOWN),
        (None, Format.UNKNOWN),
        ([], Format.UNKNOWN),
    ],
)
def test_record_is_told_by_its_keys(value: Any, wanted: Format) -> None:
    """Each accepted shape is known by the keys that only it has."""
    assert format_of(value) is wanted


def test_file_is_what_most_of_its_known_records_are(tmp_path: Path) -> None:
    """Records that tell nothing do not outvote those that do."""
    lines = [{"type": "file-history-snapshot"}] * 5 + [{"uuid": "u", "sessionId": "s"}] * 2 + [HOOK]
    assert file_format(file(tmp_path, "".join(json.dumps(line) + "\n" for line in lines))) is Format.CLAUDE


def test_recorded_transcript_is_recognised() -> None:
    """A transcript in an array is told from hook payloads."""
    assert file_format(DATA / "hooks_attio" / "chat.json.gz") is Format.CLAUDE
    assert file_format(DATA / "hooks_attio" / "pre_tool_use.json.gz") is Format.HOOK
    assert file_format(DATA / "claude_code_live.jsonl.gz") is Format.STAMPED


def test_files_of_folders_come_in_order_and_once(tmp_path: Path) -> None:
    """A folder gives its files of the four kinds below it, by name; a file named twice is read once."""
    (tmp_path / "sub").mkdir()
    names = ["b.jsonl", "a.json.gz", "sub/c.json", "note.txt", "d.csv"]
    for name in names:
        (tmp_path / name).write_text("x")
    wanted = [tmp_path / name for name in ("a.json.gz", "b.jsonl", "sub/c.json")]
    assert find_files([tmp_path]) == wanted
    assert find_files([tmp_path / "b.jsonl", tmp_path]) == [wanted[1], wanted[0], wanted[2]]
    assert find_files([tmp_path / "note.txt"]) == [tmp_path / "note.txt"]


def test_path_without_anything_to_read_is_said(tmp_path: Path) -> None:
    """A missing path and a folder without files are errors with a fix."""
    with pytest.raises(InputError, match=r"found nothing.*check the path"):
        find_files([tmp_path / "none"])
    with pytest.raises(InputError, match="found none"):
        find_files([tmp_path])
