from __future__ import annotations

from typing import Any

import pytest

from headwater.query.format import index_text
from headwater.query.markdown import index_markdown
from headwater.query.retriever import ProgressiveRetriever
from headwater.query.search import find
from headwater.query.short_ids import resolved, shortened
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.config import Config
from headwater.schemas.errors import InputError

ONE = Scope("/p/one")
# three that begin alike, one that does not, one of another project, and one whose whole id is a beginning of another
IDS = ("aaaabbbbcccc", "aaaabbbbcccd", "aaaabxxxxxxx", "zzzz00000000", "zzzz", "yyyy11111111")


@pytest.fixture
def filled(world: Any) -> Any:
    """The events of IDS, the last of them of another project."""
    last = len(IDS) - 1
    world.add(
        *(
            world.event(name, f"needle {n}", n, project="/p/two" if n == last else "/p/one")
            for n, name in enumerate(IDS)
        )
    )
    return world


def test_beginnings_stand_for_one_event(filled: Any, rows: Any) -> None:
    """A beginning of one id of the project stands for it; whole ids, unknown and shorter ones stay as they are."""

    def stands(*ids: str, scope: Scope = ONE) -> list[str]:
        return resolved(filled.stores, ids, scope)

    assert stands("evt_aaaabx", "evt_zzzz0") == ["evt_aaaabxxxxxxx", "evt_zzzz00000000"]
    assert stands("evt_zzzz") == ["evt_zzzz"]
    assert stands("evt_aaaabbbbcccc", "evt_none", "evt_z", "x") == [
        "evt_aaaabbbbcccc",
        "evt_none",
        "evt_z",
        "x",
    ]
    assert stands("evt_yyyy") == ["evt_yyyy"]
    assert stands("evt_yyyy", scope=Scope(None)) == ["evt_yyyy11111111"]
    rows.memory("zzzz00000000", "needle")
    assert stands("mem_zzzz", "ses_zzzz") == ["mem_zzzz00000000", "ses_zzzz"]


def test_what_may_be_several_is_an_error_that_names_them(filled: Any) -> None:
    """An ambiguous beginning names what it may stand for; in a query, which may hold any text, it is left out."""
    with pytest.raises(InputError) as error:
        resolved(filled.stores, ["evt_aaaabb"], ONE)
    for part in ("evt_aaaabb", "evt_aaaabbbbcccc, evt_aaaabbbbcccd", "give more of its characters"):
        assert part in str(error.value)
    assert resolved(filled.stores, ["evt_aaaabb", "evt_zzzz"], ONE, strict=False) == ["evt_zzzz"]
    retriever = ProgressiveRetriever(filled.stores, None, Config())
    assert retriever.smart_search("needle evt_aaaabb", ONE).index
    assert retriever.smart_search("needle evt_aaaabx", ONE).meta.expansion_reason == "explicit_id"


def test_rows_show_what_can_be_asked_for(filled: Any) -> None:
    """Each row is named by the shortest beginning that no other event of its project has: it can be asked by."""
    found = find(filled.stores, "needle", ONE, 10)
    shorts = {item.id: item.short for item in found.items}
    assert shorts == {
        "evt_aaaabbbbcccc": "evt_aaaabbbbcccc",
        "evt_aaaabbbbcccd": "evt_aaaabbbbcccd",
        "evt_aaaabxxxxxxx": "evt_aaaabx",
        "evt_zzzz00000000": "evt_zzzz0",
        "evt_zzzz": "evt_zzzz",
    }
    retriever = ProgressiveRetriever(filled.stores, None, Config())
    for id_, short in shorts.items():
        assert [item.id for item in retriever.get_details([short], ONE).items] == [id_]
        assert [item.id for item in retriever.get_timeline([short], ONE).items if item.is_target] == [id_]
    assert "\nevt_aaaabx " in "\n" + index_text(found.items)
    assert "| evt_aaaabx |" in index_markdown(found.items, 5)


def test_shortening_among_many() -> None:
    """Of three in a row the middle one shares most with either; each is found by its beginning alone."""
    every = ["evt_abcd1111", "evt_abcd1122", "evt_abcd1133", "evt_abxx"]
    found = shortened(every[:3], every)
    assert found == {
        "evt_abcd1111": "evt_abcd111",
        "evt_abcd1122": "evt_abcd112",
        "evt_abcd1133": "evt_abcd113",
    }


def test_shortening_by_hand() -> None:
    """One character more than what another has in common; at least SHORT_ID_CHARS; at most the whole."""
    assert shortened(["evt_abcdefgh"], ["evt_abcdefgh"]) == {
        "evt_abcdefgh": "evt_abcdefgh"[: limits.SHORT_ID_CHARS]
    }
    assert shortened(["evt_abcdefgh"], ["evt_abcdexxx", "evt_abcdefgh"]) == {"evt_abcdefgh": "evt_abcdef"}
    assert shortened(["evt_abcd"], ["evt_abcd", "evt_abcdx"]) == {"evt_abcd": "evt_abcd"}
