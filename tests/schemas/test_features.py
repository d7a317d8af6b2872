from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas import limits
from headwater.schemas.events import Event, FileOp, FileRef, Kind
from headwater.schemas.features import (
    Features,
    event_features,
    is_file,
    join,
    split_identifier,
    stem,
    text_features,
)

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def event(kind: Kind, content: str, files: tuple[FileRef, ...] = ()) -> Event:
    """Return an event of a kind with a text."""
    return Event("evt_1", "claude-code", "s", "/p", AT, kind, content, files=files)


def test_identifiers_are_entities_and_their_words_topics() -> None:
    """A name of code is kept whole as an entity, and split into words that prose shares with it."""
    found = text_features("move `IdempotencyStore` and idempotency_keys to Postgres")
    assert found.entities == ("IdempotencyStore", "idempotency_keys")
    assert {"idempotency", "store", "key", "postgres"} <= set(found.topics)


def test_files_are_told_from_other_dotted_names() -> None:
    """A path or name with a known suffix is a file; a method call or a version is not."""
    found = text_features("see app/api/charges.py and deps.py, not amount.quantize or v1.2, nor Dockerfile.")
    assert found.files == ("app/api/charges.py", "deps.py", "Dockerfile")
    assert "amount.quantize" in found.entities
    assert not is_file("e.g")


@pytest.mark.parametrize("word", ["토큰을", "토큰은", "토큰으로", "토큰에서", "토큰까지", "토큰"])
def test_korean_particles_are_stripped(word: str) -> None:
    """A Korean noun is one topic, whatever particle follows it."""
    assert "토큰" in text_features(f"재연결 {word} 다시 보자").topics


def test_japanese_runs() -> None:
    """Katakana words stay whole; Kanji runs give the run and its pairs, so that a part of a compound is found."""
    topics = text_features("タイルの簡略化を変える").topics
    assert "タイル" in topics
    assert {"簡略化", "簡略"} <= set(topics)


def test_chinese_pairs_end_at_words_without_meaning() -> None:
    """Chinese text gives pairs within the pieces between its function words, never across them."""
    topics = text_features("离线缓存的上限").topics
    assert {"离线", "缓存", "上限"} <= set(topics)
    assert not any("的" in topic for topic in topics)


def test_half_width_and_decomposed_writing_meet_the_usual_one() -> None:
    """The same word in another encoding gives the same topic."""
    assert text_features("ｷｬｯｼｭ").topics == text_features("キャッシュ").topics


def test_words_are_whole_words() -> None:
    """A topic is a word, never a part of another: latest does not speak of a test, nor address of add."""
    topics = set(text_features("the latest address prefix").topics)
    assert not topics & {"test", "add", "fix"}
    assert "address" in topics


def test_function_words_and_small_talk_are_no_topics() -> None:
    """What only holds a sentence together, or nods, is no topic in any of the languages."""
    for text in ("ok thanks, go on with it", "ㅇㅋ 그대로 계속", "はい、お願いします", "好的，继续"):
        assert text_features(text).topics == ()


def test_hashes_and_numbers_are_no_names() -> None:
    """Commit hashes and bare numbers name nothing that comes back."""
    found = text_features("committed as 4be19c2 after 1893340 rows")
    assert "4be19c2" not in found.entities + found.topics
    assert "1893340" not in found.topics


def test_topics_come_only_from_what_was_said() -> None:
    """Output of tools gives files and entities, never topics: it would drown what the work is about."""
    found = event_features(
        event(Kind.TOOL, "$ ls\nsomething PoolTimeout here", (FileRef("app/x.py", FileOp.READ),))
    )
    assert found.topics == ()
    assert found.files == ("app/x.py",)
    assert "PoolTimeout" in found.entities
    assert not event_features(event(Kind.SESSION_START, ""))


def test_stems_bring_forms_of_a_word_together() -> None:
    """Number and tense do not matter when words are compared; short words and names stay as they are."""
    assert len({stem(word) for word in ("purge", "purged", "purging", "purges")}) == 1
    assert stem("retries") == stem("retry")
    assert stem("bus") == "bus"
    assert stem("토큰") == "토큰"


def test_split_identifier() -> None:
    """Identifiers are split at case, underscores and digits."""
    assert split_identifier("maxHTTPRetry_count2") == ("max", "http", "retry", "count")


def test_join_keeps_the_first_place() -> None:
    """Features of several texts are one list each, without repeats."""
    joined = join((Features(("a", "b"), ("f",)), Features(("b", "c"), (), ("E",))))
    assert joined == Features(("a", "b", "c"), ("f",), ("E",))


@given(st.text(max_size=400))
def test_any_text_has_bounded_features(text: str) -> None:
    """No text raises, none gives more than the limits, and the same text gives the same."""
    found = text_features(text)
    assert len(found.topics) <= limits.FEATURE_TOPICS
    assert len(found.files) <= limits.FEATURE_FILES
    assert len(found.entities) <= limits.FEATURE_ENTITIES
    text_features.cache_clear()
    assert text_features(text) == found
    assert all(len(set(group)) == len(group) for group in (found.topics, found.files, found.entities))


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "a." * 100_000, "가" * 200_000, "/" * 200_000, "```" * 50_000]
)
def test_long_odd_texts_are_read_in_linear_time(text: str) -> None:
    """A text without words does not stall the stream: it is cut, and each character is looked at once."""
    assert len(text_features(text).topics) <= limits.FEATURE_TOPICS
