from __future__ import annotations

import json
from pathlib import Path

from headwater.storage.quarantine import drop_repeats, take_in


def report(n: int, at: str = "now") -> str:
    """Return a report about line n."""
    return json.dumps({"at": at, "file": "f@1", "offset": n, "reason": "no", "excerpt": ""})


def write(path: Path, *lines: str) -> Path:
    """Write a file of lines."""
    path.write_text("".join(line + "\n" for line in lines))
    return path


def read(path: Path) -> list[str]:
    """Return its lines."""
    return path.read_text().splitlines()


def test_first_report_of_a_line_stays(tmp_path: Path) -> None:
    """Lines that are read again are reported once; what is no report stays as well."""
    path = write(tmp_path / "q", report(1, "old"), "no json", report(2), report(1, "new"), "no json")
    drop_repeats(path)
    assert read(path) == [report(1, "old"), "no json", report(2)]


def test_file_without_repeats_is_not_touched(tmp_path: Path) -> None:
    """Nothing is written when nothing is to be done, also without a file."""
    path = write(tmp_path / "q", report(1), report(2))
    before = path.stat()
    drop_repeats(path)
    drop_repeats(tmp_path / "none")
    assert path.stat().st_ino == before.st_ino
    assert not (tmp_path / "none").exists()


def test_other_file_is_taken_in_once(tmp_path: Path) -> None:
    """Reports of a build join those of before, and their file goes away."""
    path = write(tmp_path / "q", report(1, "old"))
    other = write(tmp_path / "other", report(1, "new"), report(2))
    take_in(path, other)
    take_in(path, other)
    assert read(path) == [report(1, "old"), report(2)]
    assert not other.exists()
