from __future__ import annotations

from pathlib import Path

import pydantic
import pytest

from headwater.schemas import config, limits
from headwater.schemas.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    """Return a settings file with this text."""
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def complaint(file: Path) -> ConfigError:
    """Return what is said of a settings file that cannot be used."""
    with pytest.raises(ConfigError) as caught:
        config.load(file)
    return caught.value


def test_defaults_are_the_published_ones(tmp_path: Path) -> None:
    """Without a file, and without a home, every setting has its default."""
    found = config.load(tmp_path / "config.toml")
    assert found == config.load(None)
    assert found.mode == "session"
    assert found.embedding.version is None
    assert found.ingest.rescan_s == limits.RESCAN_S
    disclosure = found.progressive_disclosure
    assert disclosure.enabled
    assert (disclosure.layer1.top_k, disclosure.layer1.min_score) == (10, 0.7)
    budget = disclosure.token_budget
    assert (
        budget.max_total_tokens,
        budget.layer1_per_item,
        budget.layer2_per_item,
        budget.layer3_per_item,
    ) == (
        2000,
        50,
        40,
        500,
    )


def test_settings_do_not_change(tmp_path: Path) -> None:
    """Settings that were read are frozen."""
    found = config.load(None)
    with pytest.raises(pydantic.ValidationError):
        found.mode = "endless"
    with pytest.raises(pydantic.ValidationError):
        found.ingest.rescan_s = 1.0


def test_the_file_overrides_defaults_one_by_one(tmp_path: Path) -> None:
    """A key in the file leaves its neighbours at their defaults."""
    found = config.load(write(tmp_path, 'mode = "endless"\n[progressive_disclosure.layer1]\ntop_k = 3\n'))
    assert found.mode == "endless"
    assert found.progressive_disclosure.layer1 == config.Layer1Config(top_k=3)
    assert found.progressive_disclosure.token_budget == config.TokenBudgetConfig()


def test_the_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested names are joined by two underscores; what the environment does not name stays as the file has it."""
    file = write(tmp_path, "[ingest]\nrescan_s = 2\nread_pace_s = 0.5\n")
    monkeypatch.setenv("HEADWATER_INGEST__RESCAN_S", "7.5")
    monkeypatch.setenv("HEADWATER_PROGRESSIVE_DISCLOSURE__LAYER1__TOP_K", "4")
    found = config.load(file)
    assert (found.ingest.rescan_s, found.ingest.read_pace_s, found.ingest.epoch_s) == (
        7.5,
        0.5,
        limits.EPOCH_S,
    )
    assert found.progressive_disclosure.layer1.top_k == 4


def test_one_home_does_not_remember_another(tmp_path: Path) -> None:
    """Each call reads the file it is given."""
    assert config.load(write(tmp_path, 'mode = "endless"')).mode == "endless"
    assert config.load(None).mode == "session"


def test_other_variables_of_ours_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """HEADWATER_HOME and its like are not taken for unknown settings."""
    monkeypatch.setenv("HEADWATER_HOME", "somewhere")
    assert config.load(None).mode == "session"


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        (
            '# note\nmoed = "session"\n',
            2,
            "moed",
            "unknown key 'moed', wanted one of embedding, endless, ingest, mode",
        ),
        (
            "[ingest]\nrescan_s = 3\npace = 1\n",
            3,
            "ingest.pace",
            "wanted one of epoch_s, read_pace_s, rescan_s",
        ),
        ("[progressive_disclosure.layer1]\nk = 1\n", 2, "progressive_disclosure.layer1.k", "unknown key 'k'"),
        ('mode = "endles"\n', 1, "mode", "'session' or 'endless', got 'endles'"),
        ('[ingest]\nrescan_s = "soon"\n', 2, "ingest.rescan_s", "valid number"),
        ("[ingest]\nrescan_s = 0\n", 2, "ingest.rescan_s", "greater than 0, got 0"),
        ("[ingest]\nepoch_s = inf\n", 2, "ingest.epoch_s", "finite number"),
        ('ingest.rescan_s = "soon"\n', 1, "ingest.rescan_s", "got 'soon'"),
        ('"ingest" . "rescan_s" = "soon"\n', 1, "ingest.rescan_s", "got 'soon'"),
        ('ingest = { rescan_s = "soon" }\n', 1, "ingest.rescan_s", "got 'soon'"),
        ("ingest = 5\n", 1, "ingest", "got 5"),
        (
            "[embedding]\nmodel = 'x'\n[progressive_disclosure.layer1]\ntop_k = 500 # all\n",
            4,
            "progressive_disclosure.layer1.top_k",
            "got 500",
        ),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, line: int, key: str, said: str) -> None:
    """File, line and key, what was wanted, what came, and the fix."""
    file = write(tmp_path, text)
    error = complaint(file)
    assert error.where == f"{file} line {line}, key {key}"
    assert said in error.problem
    assert error.fix


def test_same_name_in_two_sections(tmp_path: Path) -> None:
    """The line is that of the section which is wrong, not of a namesake before it."""
    text = "[progressive_disclosure]\nenabled = true\n[progressive_disclosure.token_budget]\nenabled = true\n"
    assert "line 4" in complaint(write(tmp_path, text)).where


def test_a_wrong_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value from the environment is not blamed on the file, which may have a good one."""
    monkeypatch.setenv("HEADWATER_INGEST__RESCAN_S", "soon")
    error = complaint(write(tmp_path, "[ingest]\nrescan_s = 3\n"))
    assert error.where == "environment HEADWATER_INGEST__RESCAN_S"


def test_an_unknown_nested_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable inside a section is told, with the names that exist."""
    monkeypatch.setenv("HEADWATER_INGEST__RESCAN", "3")
    with pytest.raises(ConfigError, match="environment HEADWATER_INGEST__RESCAN: unknown key 'rescan'"):
        config.load(None)


def test_a_section_in_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole section may be JSON in one variable; anything else there is an error with the way out."""
    monkeypatch.setenv("HEADWATER_INGEST", '{"rescan_s": 9}')
    assert config.load(None).ingest.rescan_s == 9
    monkeypatch.setenv("HEADWATER_EMBEDDING", "minilm")
    with pytest.raises(ConfigError, match="HEADWATER_EMBEDDING__NAME"):
        config.load(None)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"mode = \n", "line 1"), (b"mode = '\xff'\n", "cannot be read"), (b"a=1\na=2\n", "line 2")],
)
def test_a_broken_file_is_told(tmp_path: Path, data: bytes, said: str) -> None:
    """What is no TOML, or no UTF-8, is told with its place."""
    file = tmp_path / "config.toml"
    file.write_bytes(data)
    error = complaint(file)
    assert said in str(error)
    assert error.where == str(file)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """A folder in the place of the file is told, not passed over."""
    (tmp_path / "config.toml").mkdir()
    assert "cannot be read" in complaint(tmp_path / "config.toml").problem


def test_published_defaults_of_endless_mode() -> None:
    """Each published key of endless mode is there with its published default."""
    endless = config.load(None).endless
    assert endless.model_dump() == {
        "enabled": False,
        "working_set": {"max_events": 100, "time_window_hours": 24, "min_relevance_score": 0.5},
        "consolidation": {
            "trigger_interval_ms": 3600000,
            "trigger_event_count": 100,
            "trigger_idle_ms": 1800000,
            "use_llm_summarization": False,
            "llm_url": "",
            "llm_model": "",
            "llm_timeout_ms": 20000,
            "min_events": 3,
            "max_summary_chars": 1000,
            "keep_active": 10,
            "on_break": True,
            "on_session_end": True,
            "coherence_weight": 1.0,
        },
        "continuity": {
            "min_score_for_seamless": 0.7,
            "min_score_for_topic_shift": 0.4,
            "topic_decay_hours": 48,
            "type": "thread",
            "empty_groups": "left_out",
            "score_without_log": None,
        },
        "context": {"min_relevance": 0.7},
    }


@pytest.mark.parametrize(
    ("variable", "highest"),
    [
        ("ENDLESS__WORKING_SET__MAX_EVENTS", limits.WORKING_SET_MAX),
        ("ENDLESS__CONSOLIDATION__TRIGGER_EVENT_COUNT", limits.WINDOW_EVENTS_MAX),
        ("RETRIEVAL__MAX_TOKENS", limits.INJECT_TOKENS_MAX),
    ],
)
def test_settings_that_cost_are_bounded(monkeypatch: pytest.MonkeyPatch, variable: str, highest: int) -> None:
    """The highest value is accepted, one more is refused."""
    monkeypatch.setenv(f"HEADWATER_{variable}", str(highest))
    config.load(None)
    monkeypatch.setenv(f"HEADWATER_{variable}", str(highest + 1))
    with pytest.raises(ConfigError, match=str(highest)):
        config.load(None)
