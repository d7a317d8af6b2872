from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from lance_rows import NOW

from headwater.query.candidates import candidates
from headwater.query.positions import Positions, positions
from headwater.query.search import exact_words, find, search_index
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.columns import events_to_arrow
from headwater.schemas.errors import InputError
from headwater.schemas.events import Kind

ONE = Scope("/p/one")


def names(world: Any, query: str, scope: Scope = ONE, top_k: int = 10, *, meaning: bool = False) -> list[str]:
    """Names of what is found, best first."""
    encoder = world.encoder if meaning else None
    return [item.id.removeprefix("evt_") for item in search_index(world.stores, query, scope, top_k, encoder)]


def test_missing_and_empty_tables_give_nothing(world: Any) -> None:
    """A search before the first event is an empty answer."""
    assert names(world, "anything", meaning=True) == []
    assert find(world.stores, "", ONE, 5, world.encoder).total_matches == 0


def test_row_has_all_its_parts(world: Any) -> None:
    """A row names what was found, where and when, with a score in [0, 1] and one line of at most 100 characters."""
    world.add(world.event("a", "How do we parse the header? " * 20, minute=3, project="/p/one"))
    (item,) = search_index(world.stores, "parse header", ONE, 5)
    assert (item.id, item.kind, item.session_id, item.project) == ("evt_a", "prompt", "s1", "/p/one")
    assert item.at == world.event("a", minute=3).at
    assert 0 < item.score <= 1
    assert 0 < len(item.summary) <= limits.SUMMARY_CHARS


def test_projects_are_walls(world: Any) -> None:
    """Nothing of another project is found by words or by meaning, and everything when all projects are asked for."""
    world.add(world.event("a", "retry the upload"), world.event("b", "retry the upload", project="/p/two"))
    world.vectors.points = {"evt_a": (1.0, 0.0), "evt_b": (1.0, 0.0)}  # a source that forgets the filter
    assert names(world, "retry upload", meaning=True) == ["a"]
    assert world.vectors.filters == ["project = '/p/one'"]
    assert sorted(names(world, "retry upload", Scope(None), meaning=True)) == ["a", "b"]
    assert names(world, "retry upload", Scope("/p/one' OR 1=1 --"), meaning=True) == []


def test_filter_comes_before_the_best(world: Any) -> None:
    """A project with one weak match is not crowded out by a loud one."""
    loud = [world.event(f"x{n}", "needle needle", project="/p/two") for n in range(150)]
    world.add(*loud, world.event("a", "one needle in a long text about other things " * 3))
    assert names(world, "needle", top_k=3) == ["a"]


def test_words_alone(world: Any) -> None:
    """Without encoder, vectors, or vectors of the encoder's version, words find what they can."""
    world.add(world.event("a", "the cache expires"), world.event("b", "other"))
    world.vectors.points = {"evt_b": (1.0, 0.0)}
    assert names(world, "cache") == ["a"]
    world.encoder.version = "fake-2-1"
    assert names(world, "cache", meaning=True) == ["a"]
    assert world.vectors.versions == []


def test_meaning_alone(world: Any) -> None:
    """Without a word in common, the nearest vectors are found, nearest first; what is gone is left out."""
    world.add(world.event("a", "automobile"), world.event("b", "fruit"))
    world.vectors.points = {"evt_b": (0.2, 0.98), "evt_a": (0.9, 0.4), "evt_gone": (1.0, 0.0)}
    assert names(world, "car", meaning=True) == ["a", "b"]


def test_other_item_kinds_are_not_taken_for_events(world: Any) -> None:
    """A vector of a memory with an event's id says nothing of the event."""
    world.add(world.event("a", "automobile"))
    world.vectors.points = {"evt_a": (1.0, 0.0)}
    world.vectors.kind = "memory"
    assert names(world, "car", meaning=True) == []


def test_both_arms_beat_one(world: Any) -> None:
    """A row found by words and by meaning comes before rows found by one of them."""
    world.add(
        world.event("a", "login fails"), world.event("b", "login fails"), world.event("c", "sign in broken")
    )
    world.vectors.points = {"evt_b": (0.9, 0.4), "evt_c": (0.9, 0.4)}
    assert names(world, "login fails", meaning=True)[0] == "b"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("parse_http_header", "id"),
        ("where is parse_http_header used?", "id"),
        ("PARSE_HTTP_HEADER", "id"),
        ("src/net/header.py", "path"),
        ("header.py", "path"),
        ("HttpHeader", "camel"),
    ],
)
def test_exact_identifiers_and_paths_come_first(world: Any, query: str, first: str) -> None:
    """What is typed as it stands in the text is above what only resembles it, whatever the vectors say."""
    world.add(
        world.event("id", "a long answer about many things, parse_http_header among them, " * 5),
        world.event("path", "changed src/net/header.py and more " * 5),
        world.event("camel", "class HttpHeader was renamed " * 5),
        world.event("words", "parse http header parse http header used src net header py"),
    )
    world.vectors.points = {"evt_words": (1.0, 0.0)}
    found = search_index(world.stores, query, ONE, 10, world.encoder)
    assert found[0].id == f"evt_{first}"
    assert all(0 <= item.score <= 1 for item in found)
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)


def test_hyphenated_words_are_not_identifiers() -> None:
    """Ordinary compounds and abbreviations are words; flags, versions and paths are not."""
    assert exact_words("a well-known and/or issue, e.g. here, on 2025-12-28 at 16:30") == []
    assert exact_words("src/a.py fooBar foo_bar v1.2 utf8") == [
        "src/a.py",
        "foobar",
        "foo_bar",
        "v1.2",
        "utf8",
    ]


@pytest.mark.parametrize(
    ("query", "first"),
    [("검색", "ko"), ("로그를 남겨", "ko"), ("検索の設定", "ja"), ("审批", "zh"), ("retry policy", "en")],
)
def test_languages(world: Any, query: str, first: str) -> None:
    """Words of Korean (inside a word), Japanese, Chinese and English are found."""
    world.add(
        world.event("ko", "검색한다면 로그를 남기고 싶다"),
        world.event("ja", "検索エンジンの設定を変更した"),
        world.event("zh", "审批流程已经完成"),
        world.event("en", "the retry policy is too eager"),
    )
    assert names(world, query)[0] == first


def test_equal_scores_by_newer(world: Any) -> None:
    """Equal rows come newest first, then by id."""
    minutes = {"a": 1, "c": 2, "b": 2}
    world.add(*(world.event(name, f"same {name}", at, session_id=name) for name, at in minutes.items()))
    assert names(world, "same") == ["b", "c", "a"]


def test_top_k_and_total(world: Any) -> None:
    """No more rows than asked for; the total counts all candidates; a senseless number is refused."""
    world.add(*(world.event(f"{n}", f"same {n}") for n in range(12)))
    found = find(world.stores, "same", ONE, 5)
    assert (len(found.items), found.total_matches) == (5, 12)
    for top_k in (0, -1, limits.TOP_K_MAX + 1):
        with pytest.raises(InputError):
            find(world.stores, "same", ONE, top_k)


def test_file_scope_holds_for_vectors_too(world: Any) -> None:
    """With a file, only events that touch it are found, by words and by meaning."""
    world.add(world.event("a", "fix it", files=["src/a.py"]), world.event("b", "fix it", files=["src/b.py"]))
    world.vectors.points = {"evt_a": (1.0, 0.0), "evt_b": (1.0, 0.0)}
    assert names(world, "fix", Scope("/p/one", file="src/b.py"), meaning=True) == ["b"]
    assert world.vectors.filters == ["(project = '/p/one') AND (item_id IN ('evt_b'))"]
    assert names(world, "fix", Scope("/p/one", file="src/c.py"), meaning=True) == []


def test_events_without_text_are_no_candidates(world: Any) -> None:
    """A session's start and end are not found; a tool without output is not either."""
    world.add(world.event("a", "", kind=Kind.SESSION_START), world.event("b", "session start"))
    assert names(world, "session start") == ["b"]


@pytest.mark.parametrize(
    "query",
    [
        "\x00",
        "\ud800",
        '"',
        "' OR 1=1 --",
        "title:(",
        "a" * 20_000,
        "x_y " * 5_000,
        "검 " * 5_000,
        "👩‍👩‍👧",
        "\n\t",
    ],
    ids=range(10),
)
def test_no_query_raises(world: Any, query: str) -> None:
    """Any text is a query."""
    world.add(world.event("a", "x_y plain text 검색"))
    find(world.stores, query, ONE, 5, world.encoder)


def test_repeats_are_counted(world: Any) -> None:
    """The same text again is one row that says how often, the newest of equals; in another project it is another."""
    again = [world.event(f"a{n}", "retry the upload", n, session_id=f"s{n}") for n in range(3)]
    world.add(
        *again, world.event("b", "Retry the upload!", 9, project="/p/two"), world.event("c", "retry later", 5)
    )
    (first, second) = find(world.stores, "retry upload", ONE, 5).items
    assert (first.id, first.folded, second.id, second.folded) == ("evt_a2", 2, "evt_c", 0)


def test_neighbours_speak_for_a_short_answer(world: Any) -> None:
    """Of two equal answers the one beside the question that is asked again comes first."""
    world.add(
        world.event("ask", "which retention for idempotency keys?", 1),
        world.event("yes", "seventy two hours please", 2, kind=Kind.RESPONSE),
        world.event("other", "the docs page is long", 1, session_id="s2"),
        world.event("no", "seventy two hours later", 2, session_id="s2", kind=Kind.RESPONSE),
    )
    assert names(world, "idempotency retention hours")[:2] == ["ask", "yes"]


def test_a_day_that_is_named_comes_first(world: Any) -> None:
    """What happened on the day of the question is before what has its words on another."""
    world.add(
        world.event("a", "deploy fixed"), world.event("b", "what was deployed, the deploy", 60 * 24 * 7)
    )
    assert names(world, "deploy on 2026-01-05")[0] == "a"
    assert names(world, "deploy on 12 January")[0] == "b"
    assert names(world, "what happened on 12 January?") == ["b"]


def test_reversed_turns_stand_behind(world: Any, rows: Any) -> None:
    """A turn that a later one reverses is behind it, and names what holds now."""
    world.add(
        world.event("old", "cache in redis, decided: redis cache", 1, turn_id="t1"),
        world.event("new", "cache in postgres now", 9, turn_id="t2"),
    )
    assert names(world, "redis cache") == ["old", "new"]
    rows.reversal("r", "old", "new")
    (first, second) = find(world.stores, "redis cache", ONE, 5).items
    assert (first.id, second.id, second.superseded_by) == ("evt_new", "evt_old", "evt_new")
    assert first.score >= second.score


def test_more_candidates_than_an_arm_holds(world: Any) -> None:
    """Of more matches than SEARCH_CANDIDATES the total counts as many; neighbours never make it CANDIDATE_TEXTS."""
    world.add(*(world.event(f"{n:03}", f"needle {n}", n) for n in range(limits.SEARCH_CANDIDATES + 5)))
    found = candidates(world.stores, "needle", ONE, None)
    assert found is not None
    assert find(world.stores, "needle", ONE, 5).total_matches == limits.SEARCH_CANDIDATES
    assert limits.SEARCH_CANDIDATES <= found.rows.height <= limits.CANDIDATE_TEXTS


def test_fewer_by_meaning_in_a_large_project(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more vectors than SEARCH_NEAREST_OF_MANY a project of VECTOR_INDEX_ROWS events looks at as many."""
    many = limits.SEARCH_NEAREST_OF_MANY + 5
    world.add(*(world.event(f"{n:03}", f"fruit {n}", n) for n in range(many)))
    world.vectors.points = {f"evt_{n:03}": (1.0, n / 1000) for n in range(many)}
    assert find(world.stores, "car", ONE, 5, world.encoder).total_matches == many
    monkeypatch.setattr(limits, "VECTOR_INDEX_ROWS", many)
    assert find(world.stores, "car", ONE, 5, world.encoder).total_matches == limits.SEARCH_NEAREST_OF_MANY


def test_places_follow_the_table(world: Any) -> None:
    """New and late events find their place, deleted ones leave it; no more than POSITIONS_KEPT projects are kept."""

    def look(scope: Scope = ONE) -> Positions:
        found: Positions = world.events.view(lambda view: positions(world.stores, scope, view))
        return found

    def places() -> dict[str, float]:
        return dict(look().order.select("id", "place").iter_rows())

    world.add(
        world.event("a", "x", 1),
        world.event("t", "x", 2, kind=Kind.TOOL, tool="Bash"),
        world.event("b", "x", 3),
    )
    assert places() == {"evt_a": 0.0, "evt_t": 0.5, "evt_b": 1.0}
    world.add(world.event("c", "x", 4))
    assert places()["evt_c"] == 2.0
    world.add(world.event("late", "x", 0), world.event("start", "", 0, kind=Kind.SESSION_START))
    assert places()["evt_c"] == 3.0
    world.events.delete("id = 'evt_late'")
    assert places() == {"evt_a": 0.0, "evt_t": 0.5, "evt_b": 1.0, "evt_c": 2.0}
    world.events.upsert(events_to_arrow([world.event("b", "x", 9)]))
    assert places() == {"evt_a": 0.0, "evt_t": 0.5, "evt_c": 1.0, "evt_b": 2.0}
    before = look()
    world.events.maintain(NOW, force=True)  # rows lie in other fragments now
    assert places() == {"evt_a": 0.0, "evt_t": 0.5, "evt_c": 1.0, "evt_b": 2.0}
    assert before.fragments != look().fragments
    for n in range(limits.POSITIONS_KEPT + 2):
        look(Scope(f"/p/{n}"))
    assert len(world.stores.positions) == limits.POSITIONS_KEPT


def test_neighbours_are_the_messages_beside(world: Any) -> None:
    """Before and after an event stand the next messages of its session, calls between them passed over."""
    world.add(
        world.event("s", "", 0, kind=Kind.SESSION_START),
        world.event("t0", "x", 1, kind=Kind.TOOL, tool="Bash"),
        world.event("a", "x", 2),
        world.event("t1", "x", 3, kind=Kind.TOOL, tool="Bash"),
        world.event("t2", "x", 4, kind=Kind.TOOL, tool="Bash"),
        world.event("b", "x", 5),
        world.event("c", "x", 0, session_id="s2"),
    )
    found = world.events.view(lambda view: positions(world.stores, ONE, view))
    ids = [*(one.removeprefix("evt_") for one in found.rows.get_column("id").to_list()), None]
    beside = {ids[n]: (ids[found.before[n]], ids[found.after[n]]) for n in range(found.rows.height)}
    assert beside == {
        "t0": (None, "a"),
        "a": (None, "b"),
        "t1": ("a", "b"),
        "t2": ("a", "b"),
        "b": ("a", None),
        "c": (None, None),
        "s": (None, None),
    }
    assert [ids[n] for n in found.of_ids(pl.Series(["evt_b", "evt_none", "evt_s"]))] == ["b", None, "s"]
    assert found.of_rows(found.rows.get_column("_rowid").reverse()).tolist() == list(range(6, -1, -1))


def test_narrow_scopes_hold_for_what_is_found_by_meaning(world: Any) -> None:
    """An index of vectors that is behind the events lets nothing through that the scope does not."""
    world.add(
        world.event("a", "one", session_id="s1"), world.event("b", "two", session_id="s2", agent="codex")
    )
    world.vectors.points = {"evt_a": (1.0, 0.0), "evt_b": (1.0, 0.0), "evt_gone": (1.0, 0.0)}
    assert names(world, "car", Scope("/p/one", session_id="s2"), meaning=True) == ["b"]
    assert names(world, "car", Scope("/p/one", agent="claude-code"), meaning=True) == ["a"]
    assert names(world, "car", Scope("/p/two"), meaning=True) == []


def test_a_call_without_text_is_named(world: Any) -> None:
    """What has no text to show is shown by what it is."""
    world.add(world.event("t", " \u2028", kind=Kind.TOOL, tool="Bash"))
    world.vectors.points = {"evt_t": (1.0, 0.0)}
    (found,) = find(world.stores, "car", ONE, 5, world.encoder).items
    assert found.summary == "[tool Bash]"
