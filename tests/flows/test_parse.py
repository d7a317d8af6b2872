from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_lines import encode, envelope, payload, raw

from headwater.flows.parse import parse
from headwater.schemas import limits
from headwater.schemas.events import BadLine, Envelope, Position, Source
from headwater.storage.journal import RawLine

GOOD = encode(envelope(payload("Stop")))


def only(data: bytes) -> Envelope | BadLine:
    """Return the one record of a line."""
    found = parse(raw(data))
    assert len(found) == 1
    return found[0]


def bad(data: bytes) -> BadLine:
    """Return the one bad record of a line."""
    found = only(data)
    assert isinstance(found, BadLine)
    return found


def test_envelope_keeps_every_field() -> None:
    """A whole line becomes an envelope with all that the hook wrote."""
    line = envelope(
        {"a": 1}, source={"file": "x.json", "offset": 5, "n": 2, "time": "synthetic"}, clipped={"a.b": 70000}
    )
    found = parse(raw(encode(line), 40))[0]
    assert found == Envelope(
        position=Position("f@1", 40),
        id="d1",
        received_at_ns=line["received_at_ns"],
        agent="claude-code",
        host="h",
        project_dir="/p",
        project="/p",
        format="claude-hook",
        source=Source("x.json", 5, 2, "synthetic"),
        payload={"a": 1},
        clipped={"a.b": 70000},
    )


def test_unknown_fields_are_passed_over() -> None:
    """A later version may add fields to the envelope."""
    assert isinstance(only(encode(envelope({}, extra=[1, {"x": 2}]))), Envelope)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"v": 2}, "version 1, got '2'"),
        ({"v": None}, "version 1, got 'None'"),
        ({"received_at_ns": None}, "received_at_ns"),
        ({"received_at_ns": "1"}, "received_at_ns"),
        ({"received_at_ns": True}, "received_at_ns"),
        ({"received_at_ns": 0}, "received_at_ns"),
        ({"received_at_ns": -1}, "received_at_ns"),
        ({"received_at_ns": 2**63}, "received_at_ns"),
        ({"agent": None}, "agent"),
        ({"agent": ""}, "agent"),
        ({"agent": 7}, "agent"),
    ],
)
def test_unusable_envelope_is_bad_with_its_reason(change: dict[str, object], reason: str) -> None:
    """An envelope of another version, or without time or agent, is quarantined and says why."""
    found = bad(encode(envelope({}) | change))
    assert reason in found.reason
    assert found.position == Position("f@1", 0)


@pytest.mark.parametrize(
    "field", ["id", "host", "project_dir", "project", "format", "source", "clipped", "payload"]
)
@pytest.mark.parametrize(
    "value", [None, 7, "text", [], {}, {"file": 3}, {"file": "f", "offset": -1, "n": 2**70}]
)
def test_other_fields_of_a_wrong_type_stop_nothing(field: str, value: object) -> None:
    """Any JSON value in any other field leaves an envelope whose fields have their types."""
    found = only(encode(envelope({}) | {field: value}))
    assert isinstance(found, Envelope)
    assert isinstance(found.project, str)
    assert found.source is None or 0 <= found.source.offset < 2**63
    assert all(isinstance(n, int) for n in found.clipped.values())


@pytest.mark.parametrize("text", ["[1,2]", "7", '"a"', "null", "true"])
def test_other_json_is_bad(text: str) -> None:
    """JSON that is no object is quarantined as what it is."""
    assert bad(text.encode()).reason.startswith("wanted an envelope, got")


def test_welded_lines_come_apart() -> None:
    """Two writers that met on one line leave two envelopes, each at its own byte."""
    found = parse(raw(GOOD + GOOD, 100))
    assert [type(one) for one in found] == [Envelope, Envelope]
    assert [one.position.offset for one in found] == [100, 100 + len(GOOD)]


def test_torn_prefix_costs_one_record() -> None:
    """The whole record after a torn one on the same line is kept."""
    torn = GOOD[: len(GOOD) // 2]
    found = parse(raw(torn + GOOD))
    assert [type(one) for one in found] == [BadLine, Envelope]
    assert found[1].position.offset == len(torn)


def test_torn_inside_a_string_costs_one_record() -> None:
    """A record torn in the middle of a text does not swallow the next."""
    torn = encode(envelope(payload("UserPromptSubmit", prompt="hello"))).split(b"llo")[0]
    assert [type(one) for one in parse(raw(torn + GOOD))] == [BadLine, Envelope]


def test_rest_after_a_record_is_bad() -> None:
    """What follows a whole record and is none is quarantined beside it."""
    found = parse(raw(GOOD + b"rubbish"))
    assert [type(one) for one in found] == [Envelope, BadLine]
    assert found[1].position.offset == len(GOOD)
    assert isinstance(found[1], BadLine)
    assert found[1].excerpt == "rubbish"


def test_many_broken_pieces_are_one_bad_record() -> None:
    """A line of endless small values is one bad record, not as many as it has values."""
    assert len(parse(raw(b"1 " * 100_000))) == 1
    assert len(parse(raw(b"{}" * 1000 + GOOD))) == 2


@pytest.mark.parametrize("head", ["", "한국어 ", "😀", "é"])
def test_positions_are_bytes(head: str) -> None:
    """Offsets count bytes, also behind text of several bytes a character."""
    first = encode(envelope(payload("UserPromptSubmit", prompt=head + "검색")))
    found = parse(raw(first + b"  " + GOOD, 7))
    assert [one.position.offset for one in found] == [7, 7 + len(first) + 2]


def test_positions_are_bytes_behind_invalid_utf8() -> None:
    """Wrong bytes count as what they are, so that no position falls on another line's."""
    torn = b'{"v":1,"x":"' + b"\xff\xfe\x80" * 20
    found = parse(raw(torn + GOOD, 3))
    assert [one.position.offset for one in found] == [3, 3 + len(torn)]


def test_invalid_utf8_inside_a_record_is_replaced() -> None:
    """A record with wrong bytes in a text is kept, with U+FFFD in their place."""
    found = only(GOOD.replace(b'"/p"', b'"/\xffp"', 1))
    assert isinstance(found, Envelope)
    assert found.project_dir == "/\ufffdp"


def test_nul_bytes_around_a_record_are_passed_over() -> None:
    """NUL bytes that a crash left before and behind a record do not cost it."""
    found = parse(raw(b"\x00\x00" + GOOD + b"\x00"))
    assert len(found) == 1
    assert found[0].position.offset == 2


def test_nul_bytes_alone_are_bad() -> None:
    """A line of nothing but NUL bytes is counted, not lost."""
    assert bad(b"\x00" * 10).reason == "nothing but NUL bytes"


def test_blank_line_is_nothing() -> None:
    """White space alone is no record."""
    assert parse(raw(b" \t\r")) == []


def test_half_surrogates_and_nul_become_replacement_characters() -> None:
    """Text that no store takes is made valid, in keys, values and the envelope itself."""
    text = json.dumps(envelope({"k\ud83d": ["a\udc00", {"b": "x\x00"}]}, host="\ud83dh"))
    found = only(text.encode())
    assert isinstance(found, Envelope)
    assert found.payload == {"k\ufffd": ["a\ufffd", {"b": "x\ufffd"}]}
    assert found.host == "\ufffdh"


def test_whole_surrogate_pairs_stay() -> None:
    """An escaped emoji is an emoji."""
    found = only(json.dumps(envelope({"a": "😀"})).encode())
    assert isinstance(found, Envelope)
    assert found.payload == {"a": "😀"}


def test_control_characters_inside_strings_are_kept() -> None:
    """A raw tab or newline escape in a text is odd, but no reason to lose the record."""
    found = only(encode(envelope({"a": "x"})).replace(b'"x"', b'"x\ty"'))
    assert isinstance(found, Envelope)
    assert found.payload == {"a": "x\ty"}


def test_depth_is_bounded() -> None:
    """A payload nested deeper than is looked into is cut there, the event stays."""
    deep: object = "core"
    for _ in range(300):
        deep = [deep]
    found = only(encode(envelope({"a": deep})))
    assert isinstance(found, Envelope)
    assert json.dumps(found.payload).count("[") <= limits.NESTING_MAX


def test_endless_nesting_is_bad() -> None:
    """Brackets beyond what the parser can follow are quarantined."""
    assert bad(b'{"v":1,"payload":' + b"[" * 100_000).reason == "not JSON: nested too deep"


def test_endless_number_is_bad() -> None:
    """A number of thousands of digits is quarantined."""
    assert "not JSON" in bad(b'{"v":1,"received_at_ns":' + b"9" * 5000 + b"}").reason


def test_oversize_line_names_its_size() -> None:
    """A line that was too long to be read is one bad record with its size."""
    found = parse(RawLine("f@1", 9, b"begin", oversize_bytes=99))
    assert found == [
        BadLine(Position("f@1", 9), f"line of 99 bytes, wanted at most {limits.LINE_BYTES}", "begin")
    ]


def test_excerpt_is_bounded() -> None:
    """The kept beginning of a bad line is short."""
    assert len(bad(b"x" * 10_000).excerpt) == limits.EXCERPT_CHARS


@given(st.binary(max_size=400))
def test_no_line_raises(data: bytes) -> None:
    """Whatever bytes stand in a line, each piece has its own place inside it."""
    found = parse(raw(data, 10))
    offsets = [one.position.offset for one in found]
    assert offsets == sorted(set(offsets))
    assert all(10 <= offset < 10 + len(data) for offset in offsets)


@given(
    st.lists(
        st.sampled_from([GOOD, GOOD[:40], b"\xff\xff", b"\x00", b"1", b"{}", b" ", "한".encode()]), max_size=8
    )
)
def test_every_whole_record_of_a_line_is_found(pieces: list[bytes]) -> None:
    """Whatever is welded together on a line, no whole record in it is lost, but for one behind an open object."""
    data = b"".join(pieces)
    found = [one for one in parse(raw(data)) if isinstance(one, Envelope)]
    assert len(found) == pieces.count(GOOD)
