from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.flows import watcher as watcher_module
from headwater.flows.watcher import Watcher, shard_of
from headwater.schemas import limits
from headwater.schemas.errors import StoreError

LIMIT_S = 20.0


def until(done: Callable[[], bool]) -> None:
    """Wait until something holds; fail after the limit."""
    end_s = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_shard_is_fixed_for_ever() -> None:
    """A file's shard never changes, for snapshots are kept under it."""
    assert shard_of("claude-code-s1.jsonl") == 5
    assert {shard_of(f"claude-code-{n}.jsonl") for n in range(200)} == set(range(limits.SHARDS))
    assert 0 <= shard_of("\udcff.jsonl") < limits.SHARDS


def test_changes_are_named_in_their_shard(tmp_path: Path) -> None:
    """A file that is made, grows or goes is named to its shard, and to no other."""
    name = "claude-code-s1.jsonl"
    watcher = Watcher(tmp_path)
    watcher.start()
    try:
        for change in (
            lambda: (tmp_path / name).write_text("a\n"),
            lambda: (tmp_path / name).write_text("a\nb\n"),
            (tmp_path / name).unlink,
        ):
            change()
            seen: set[str] = set()
            until(lambda seen=seen: seen.update(watcher.take(shard_of(name))) or name in seen)  # type: ignore[misc]
        assert all(not watcher.take(shard) for shard in range(limits.SHARDS) if shard != shard_of(name))
    finally:
        watcher.close()


def test_name_is_given_once(tmp_path: Path) -> None:
    """Taking the names empties them."""
    watcher = Watcher(tmp_path)
    watcher.start()
    try:
        (tmp_path / "a.jsonl").write_text("a\n")
        until(lambda: "a.jsonl" in watcher.take(shard_of("a.jsonl")))
    finally:
        watcher.close()
    watcher.take(shard_of("a.jsonl"))
    assert watcher.take(shard_of("a.jsonl")) == set()


def test_dead_watcher_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When watching is impossible, the next look says why and what to do."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(watcher_module, "watch", fail)
    watcher = Watcher(tmp_path)
    watcher.start()
    with pytest.raises(StoreError, match=r"inotify watch limit.*max_user_watches"):
        watcher.take(0)
    watcher.close()
