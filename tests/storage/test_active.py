from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from static_model import make_static

from headwater.schemas import limits
from headwater.schemas.errors import BusyError, ConfigError, InputError, ModelError
from headwater.storage import active
from headwater.storage.active import activate, active_model, active_version, find, next_step
from headwater.storage.home import Current, Home
from headwater.storage.locks import hold_lock
from headwater.storage.models import hash_spec, resolve, version_of

HASH = version_of(hash_spec())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A new home whose configured model is the built-in one."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    return Home.open(tmp_path / "home")


@pytest.fixture
def other(tmp_path: Path) -> str:
    """The name of another model."""
    return f"fast:{make_static(tmp_path / 'other')}"


def test_the_configured_model_becomes_current_in_a_new_home(place: Home) -> None:
    """Its version is written down with its name, and the generation stays."""
    assert active_version(place) == HASH
    assert place.current() == Current("gen-1", HASH, "test-hash", "test-hash")
    assert active_version(place) == HASH


def test_looking_switches_nothing(place: Home) -> None:
    """What would become current is told without making it so."""
    assert active.chosen_model(place).name == "test-hash"
    assert place.current() == Current()


def test_another_setting_alone_switches_nothing(
    place: Home, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old version stays, and the next step is told: to embed, or, when that was done, to switch."""
    active_version(place)
    assert next_step(place) is None
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", other)
    assert active_version(place) == HASH
    step = next_step(place)
    assert step is not None
    assert step.endswith(f"run: headwater reembed --model {other} --activate")
    version = version_of(resolve(other, place))
    (place.vectors / f"entry_vectors_{version.replace('-', '_')}.lance").mkdir(parents=True)
    assert (next_step(place) or "").endswith(f"run: headwater models activate {other}")
    activate(place, resolve(other, place))
    assert next_step(place) is None
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    assert "run: headwater reembed --model test-hash --activate" in (next_step(place) or "")


def test_a_switch_by_hand_is_not_taken_for_a_changed_setting(place: Home, other: str) -> None:
    """Who activates another model than the configured one is not told to go back."""
    active_version(place)
    activate(place, resolve(other, place))
    assert next_step(place) is None
    assert active_model(place).name == other


def test_a_setting_that_means_nothing_is_told(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old version goes on answering beside a setting that cannot be used."""
    active_version(place)
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "nosuch")
    assert "nosuch, which cannot be used" in (next_step(place) or "")
    assert active_version(place) == HASH
    place.config_file.write_text("[embedding]\nmodle = 1\n")
    with pytest.raises(ConfigError):
        next_step(place)


def test_the_same_model_under_another_name_is_no_change(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides is the version, not where the files lie."""
    one = make_static(tmp_path / "one")
    two = make_static(tmp_path / "two")
    activate(place, resolve(str(one), place))
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", str(two))
    assert next_step(place) is None


def test_changed_files_of_the_current_model_take_over(place: Home, tmp_path: Path) -> None:
    """When nothing makes the current version any more, what its model makes now becomes current."""
    folder = make_static(tmp_path / "m")
    before = activate(place, resolve(str(folder), place))
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()
    make_static(folder, chance=2)
    version = active_version(place)
    assert version not in {before, HASH}
    assert place.current().embedding_version == version


def test_a_model_that_is_away_keeps_its_place(place: Home, tmp_path: Path) -> None:
    """A missing package or folder is an error with its fix, not a switch: it may come back."""
    folder = make_static(tmp_path / "m")
    version = activate(place, resolve(str(folder), place))
    folder.rename(tmp_path / "away")
    with pytest.raises(ModelError, match="found neither"):
        active_version(place)
    assert place.current().embedding_version == version
    (tmp_path / "away").rename(folder)
    assert active_version(place) == version


def test_who_makes_a_version_is_found_without_notes(place: Home) -> None:
    """A CURRENT of before, which names no model, and lost notes: models that are here are asked."""
    place.set_current(Current(embedding_version=HASH))
    assert active_model(place).name == "test-hash"
    minilm = version_of(resolve("minilm", place))
    assert find(place, minilm).name == "minilm"
    place.set_current(Current(embedding_version=version_of(resolve("minilm+bf16", place))))
    assert active_model(place).name == "minilm+bf16"


def test_find(place: Home, other: str) -> None:
    """A model is named by its name or by a version it makes; a version that nothing makes is refused."""
    version = activate(place, resolve(other, place))
    active_version(place)
    assert find(place, version).name == find(place, other).name == other
    assert active.known_versions(place) == {version: other}
    with pytest.raises(InputError, match="no model that is here"):
        find(place, "gone-8-0123456789ab")
    with pytest.raises(ModelError, match="nosuch"):
        find(place, "nosuch")


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": 1}'])
def test_torn_notes_cost_nothing(place: Home, other: str, text: str) -> None:
    """They are written anew; the current model is named by CURRENT as well."""
    version = activate(place, resolve(other, place))
    (place.vectors / "versions.json").write_text(text)
    assert active_model(place).name == other
    activate(place, resolve(other, place))
    assert active.known_versions(place)[version] == other


def test_named_version_has_to_be_the_active_one(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """`embedding.version` keeps a model from taking over unseen, and names the way."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__VERSION", "minilm-384-0123456789ab")
    with pytest.raises(ModelError, match="models activate minilm-384-0123456789ab"):
        active_version(place)
    assert place.current().embedding_version is None


def test_two_switches_at_a_time_keep_both(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation and a model that are switched by two processes do not undo each other."""
    with ThreadPoolExecutor(4) as pool:
        for n in range(2, 12):
            done = [
                pool.submit(place.change_current, generation=f"gen-{n}"),
                pool.submit(place.change_current, embedding_version=f"v{n}"),
            ]
            assert [one.result() is not None for one in done] == [True, True]
            assert (place.current().generation, place.current().embedding_version) == (f"gen-{n}", f"v{n}")
    with hold_lock(place.run / "current.lock", "test"):
        monkeypatch.setattr(limits, "CURRENT_WAIT_S", 0.1)
        with pytest.raises(BusyError):
            place.change_current(generation="gen-99")
