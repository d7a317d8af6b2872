"""What every test gets: a clean environment, no model hub, and hypothesis profiles; `home` for those that need one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before anything imports a model library: no test looks up a hub, and a fork does not warn about tokenizer threads.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

# No deadline: a slow machine is no failure. `ci` tries more, and the same examples each time.
settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of whoever runs the tests (`HEADWATER_*`), and those of that person's agents, out of them."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/dev/null/claude")
    monkeypatch.setenv("CODEX_HOME", "/dev/null/codex")
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a path for a home, named by HEADWATER_HOME, not yet made.

    It is short (not below pytest's tmp_path), for a Unix socket's path may have about 100 bytes.
    """
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        path = Path(folder) / "home"
        monkeypatch.setenv("HEADWATER_HOME", str(path))
        yield path
