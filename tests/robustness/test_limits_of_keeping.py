"""The limits of backup, archive and vector jobs, each reached."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from stage import Stage

from headwater.flows.interrupts import Interrupts, Reason
from headwater.flows.source import Wakes
from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest
from headwater.storage import seal
from headwater.storage.archive import segment_name
from headwater.storage.backup import write_backup
from headwater.storage.models import hash_spec, version_of
from headwater.storage.outbox import VectorOutbox
from headwater.storage.seal import Survey
from headwater.surface.verbs.vectors import vector_status_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Never:
    """A stop that does not come."""

    def is_set(self) -> bool:
        """Return that it has not come."""
        return False


def test_backup_is_packed_at_its_level(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BACKUP_GZIP_LEVEL decides how small a backup is."""
    for n in range(300):
        stage.tell(
            "s", "UserPromptSubmit", float(n), prompt=f"walrus number {n} of the map", prompt_id=f"p{n}"
        )
    sizes = {limits.BACKUP_GZIP_LEVEL: write_backup(stage.home, tmp_path / "a.tar.gz", now=NOW).size_bytes}
    monkeypatch.setattr(limits, "BACKUP_GZIP_LEVEL", 0)
    sizes[0] = write_backup(stage.home, tmp_path / "b.tar.gz", now=NOW).size_bytes
    assert sizes[3] < sizes[0] / 3


def test_archive_is_looked_after_once_a_day(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a look the next one comes ARCHIVE_EVERY_S later, not before."""
    clock = FakeClock(NOW)
    wakes = Wakes(read_s=clock.monotonic_s())
    clock.move(limits.ARCHIVE_QUIET_S)
    monkeypatch.setattr("headwater.flows.interrupts.archive_is_due", lambda _home, _now: True)
    interrupts = Interrupts(stage.home, Never(), wakes, clock, archive=True)
    found = [interrupts._look()]
    clock.move(limits.ARCHIVE_EVERY_S - 1)
    found.append(interrupts._look())
    clock.move(1)
    found.append(interrupts._look())
    assert found == [Reason.ARCHIVE, None, Reason.ARCHIVE]


def test_file_of_a_long_name_is_not_sealed() -> None:
    """A sealed file's name may have ARCHIVE_FILE_NAME_BYTES."""
    found = Survey(10, 1, 0, date(2026, 3, 1), 0, torn=False)
    room = limits.ARCHIVE_FILE_NAME_BYTES - len(segment_name("", 0, found.last, found.size, found.lines))
    assert seal.fits("k" * room, 0, found)
    assert not seal.fits("k" * (room + 1), 0, found)


def test_few_failed_jobs_are_shown(stage: Stage) -> None:
    """Of many failed jobs JOBS_SHOWN are shown."""
    version = version_of(hash_spec())
    stage.work()
    count = limits.JOBS_SHOWN + 3
    with closing(VectorOutbox(stage.home.outbox_file)) as outbox:
        for n in range(count):
            outbox.enqueue(JobRequest(ItemKind.MEMORY, f"mem_{n}", version, "h"))
        for job in outbox.claim_jobs("me", count, version):
            outbox.mark_failed("me", job.job_id, "Content not found")
    found = vector_status_of(stage.home)
    assert (found["failed"], len(found["failed_jobs"])) == (count, limits.JOBS_SHOWN)
