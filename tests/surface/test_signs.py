"""Looking for secrets quickly finds what looking for them everywhere finds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_lines import live, story

from headwater.surface import assignments, cleaning
from headwater.surface.hook import clean_payload, redact

MIXED = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7k"  # families are put together here, never written out
KEY = "-----BEGIN PRIVATE " + "KEY-----\nMIIEowIBAAKCAQEAx9Zk3yq1bqv5n0Pz2h7rV5wq8K1s0a2d4f6g8h0j2k4l6z8x\n"
SPICES = [
    *("gh" + "p_" + MIXED, "sk-" + "ant-api03-" + MIXED, "AK" + "IAQ3EGUZ5XN7WK2M4P", KEY),
    *(f"eyJ{MIXED}.eyJ{MIXED}.{MIXED}", f"https://u:{MIXED}@h/x", f"Authorization: Bearer {MIXED}"),
    *(f"password = {MIXED}", "DB_PASSWORD='x y'", f"--token {MIXED}", f"the password is {MIXED}."),
    *(f"비밀번호는 {MIXED} 입니다", f"curl -u me:{MIXED} h", f"machine h login me password {MIXED}"),
    *(f"<password>{MIXED}</password>", f'"auth": "{MIXED}"', "<private>hidden</private>"),
    "gh<headwater-context>x</headwater-context>p_" + MIXED,
]
PIECES = (
    "pass PASSWORD passw _pass secret key token auth api access = : -- is , x9 hunter2 abc123defghi"
    " 비밀번호 는 \u017f é password pwd _ - login"
)


def spiced(value: object, chance: random.Random) -> object:
    """Return a JSON value with spices in some of its texts and names."""
    if isinstance(value, str) and chance.random() < 0.1:
        at = chance.randint(0, len(value))
        return value[:at] + chance.choice(SPICES) + value[at:]
    if isinstance(value, dict):
        names = {name: chance.choice(SPICES) if chance.random() < 0.01 else name for name in value}
        return {names[name]: spiced(item, chance) for name, item in value.items()}
    return [spiced(item, chance) for item in value] if isinstance(value, list) else value


def payloads() -> list[object]:
    """Return recorded payloads, plain and spiced twice."""
    chance = random.Random(1)
    recorded = [one["payload"] for one in (*live(), *story())]
    return [*recorded, *(spiced(one, chance) for one in recorded * 2)]


@pytest.mark.parametrize("spice", SPICES)
def test_spices_do_not_come_out(spice: str) -> None:
    """What is put into the payloads below is cut from a payload that holds it alone, or among much else."""
    for payload in ({"text": spice}, {"text": spice, "more": "no secret " * 60_000}):
        text = clean_payload(payload)[0]["text"]
        assert "[redacted:" in text or "[private]" in text


def test_one_look_at_a_payload_is_as_good_as_one_at_each_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of secrets are looked for in all texts at once: what is cut is what looking at each text cuts."""
    found = [clean_payload(one) for one in payloads()]
    monkeypatch.setattr(cleaning, "SIGNS_CHARS", -1)
    assert found == [clean_payload(one) for one in payloads()]
    assert "redacted" in str(found)


@given(st.lists(st.sampled_from([*PIECES.split(), " ", "\n", "'", '"']), max_size=14).map("".join))
def test_values_are_found_where_a_search_finds_them(text: str) -> None:
    """Trying a pattern where its first words stand gives what a search through the whole text gives."""
    found = redact(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignments, "_ODD", ("",))  # as if places could not be told by the case of letters
        assert redact(text) == found
