"""Settings: defaults, then `config.toml` of the home, then `HEADWATER_*` (nested names joined by `__`).

Keys, names and defaults are the product's published ones. `load` is the only way in.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from headwater.schemas import limits
from headwater.schemas.errors import ConfigError

_KEY = re.compile(r"""\"[^"]*\"|'[^']*'|[^.\s\[\]"']+""")
_QUOTED = re.compile(r'"(\w+)"')


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EmbeddingConfig(_Section):
    """Which model makes vectors: a name (`minilm`), a folder, `pkg:NAME`, or a hub name."""

    model: str = "minilm"
    version: str | None = Field(default=None, description="None: the active one")


class IngestConfig(_Section):
    """How the journal is read; seconds."""

    rescan_s: float = Field(default=limits.RESCAN_S, gt=0, allow_inf_nan=False)
    read_pace_s: float = Field(default=limits.READ_PACE_S, ge=0, allow_inf_nan=False)
    epoch_s: float = Field(default=limits.EPOCH_S, gt=0, allow_inf_nan=False)


class ServerConfig(_Section):
    """The stream as processes."""

    idle_stop_h: float = Field(
        default=24, ge=0, allow_inf_nan=False, description="hours without a hook or a question; 0: never"
    )


class WorkingSetConfig(_Section):
    """What is active in a project."""

    max_events: int = Field(default=100, ge=1, le=limits.WORKING_SET_MAX)
    time_window_hours: float = Field(default=24, gt=0, allow_inf_nan=False)
    min_relevance_score: float = Field(default=0.5, ge=0, le=1)


class ConsolidationSection(_Section):
    """When windows close and what becomes of them; an LLM's text stands beside the extract, never instead of it."""

    trigger_interval_ms: int = Field(default=3_600_000, ge=1000)
    trigger_event_count: int = Field(default=100, ge=3, le=limits.WINDOW_EVENTS_MAX)
    trigger_idle_ms: int = Field(default=1_800_000, ge=1000)
    use_llm_summarization: bool = False
    llm_url: str = Field(
        default="", description="an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1"
    )
    llm_model: str = ""
    llm_timeout_ms: int = Field(default=20_000, ge=100)
    min_events: int = Field(default=3, ge=1)
    max_summary_chars: int = Field(default=limits.MEMORY_CHARS, ge=100, le=10 * limits.MEMORY_CHARS)
    keep_active: int = Field(default=10, ge=0)
    on_break: bool = True
    on_session_end: bool = True
    coherence_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)


class ContinuitySection(_Section):
    """How a turn is compared with what was before it."""

    min_score_for_seamless: float = Field(default=0.7, ge=0, le=1)
    min_score_for_topic_shift: float = Field(default=0.4, ge=0, le=1)
    topic_decay_hours: float = Field(default=48, gt=0, allow_inf_nan=False)
    type: Literal["thread", "score"] = "thread"
    empty_groups: Literal["left_out", "zero"] = "left_out"
    score_without_log: float | None = Field(default=None, ge=0, le=1, description="None: unknown")


class ContextSection(_Section):
    """What is told to the agent in endless mode."""

    min_relevance: float = Field(default=0.7, ge=0, le=1)


class EndlessConfig(_Section):
    """Work that goes on across sessions; all of it is computed in both modes."""

    enabled: bool = False
    working_set: WorkingSetConfig = WorkingSetConfig()
    consolidation: ConsolidationSection = ConsolidationSection()
    continuity: ContinuitySection = ContinuitySection()
    context: ContextSection = ContextSection()


class RetrievalConfig(_Section):
    """What a hook brings in."""

    max_tokens: int = Field(default=1000, ge=100, le=limits.INJECT_TOKENS_MAX)


class AutoExpandConfig(_Section):
    """When a search shows more than its index by itself; what is asked for in words is shown in any case."""

    enabled: bool = True
    high_confidence_threshold: float = Field(default=0.92, ge=0, le=1)
    score_gap_threshold: float = Field(default=0.1, ge=0, le=1)
    max_auto_expand_count: int = Field(default=3, ge=0, le=limits.EXPAND_MAX)


class CacheConfig(_Section):
    """How long answers are kept in memory, milliseconds; 0: not at all. A changed table ends it at once."""

    layer1_ttl: int = Field(default=60_000, ge=0)
    layer2_ttl: int = Field(default=300_000, ge=0)
    layer3_ttl: int = Field(default=1_800_000, ge=0)


class TokenBudgetConfig(_Section):
    """Token budget of one answer.

    `estimator` "spec" counts four characters as a token, and each item as its layer's `per_item` at the least.
    """

    estimator: Literal["script", "spec"] = "script"
    max_total_tokens: int = Field(default=2000, ge=100)
    layer1_per_item: int = Field(default=50, ge=1)
    layer2_per_item: int = Field(default=40, ge=1)
    layer3_per_item: int = Field(default=500, ge=1)


class Layer1Config(_Section):
    """The index layer."""

    top_k: int = Field(default=10, ge=1, le=limits.TOP_K_MAX)
    min_score: float = Field(default=0.7, ge=0, le=1)


class ProgressiveDisclosureConfig(_Section):
    """Three layers instead of full texts."""

    enabled: bool = Field(default=True, description="false: full text of the top k")
    summary_source: Literal["matched", "first_sentence"] = "matched"
    layer1: Layer1Config = Layer1Config()
    auto_expand: AutoExpandConfig = AutoExpandConfig()
    token_budget: TokenBudgetConfig = TokenBudgetConfig()
    cache: CacheConfig = CacheConfig()


class Config(BaseSettings):
    """All settings of one home."""

    model_config = SettingsConfigDict(
        env_prefix="HEADWATER_",
        env_nested_delimiter="__",
        extra="ignore",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    mode: Literal["session", "endless"] = "session"
    embedding: EmbeddingConfig = EmbeddingConfig()
    ingest: IngestConfig = IngestConfig()
    server: ServerConfig = ServerConfig()
    endless: EndlessConfig = EndlessConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    progressive_disclosure: ProgressiveDisclosureConfig = ProgressiveDisclosureConfig()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment over file over defaults; no dotenv, no secrets folder."""
        del dotenv_settings, file_secret_settings
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


def load(config_file: Path | None) -> Config:
    """Return the settings of a home; a missing file means defaults.

    Raises ConfigError naming the file, the line and the key, what was wanted and what came.
    """
    if config_file is not None and config_file.exists():
        _check_file(config_file)
    model_config = {**Config.model_config, "toml_file": config_file}
    bound = cast(
        "type[Config]", type("Config", (Config,), {"model_config": model_config, "__module__": __name__})
    )
    try:
        found = bound()
        return Config.model_construct(**{name: getattr(found, name) for name in Config.model_fields})
    except ValidationError as error:
        raise _explain(error, config_file) from error
    except SettingsError as error:  # a whole section in one variable has to be JSON
        field = _QUOTED.search(str(error))
        variable = f"HEADWATER_{field[1].upper()}" if field else "HEADWATER_*"
        raise ConfigError(
            f"environment {variable}",
            f"wanted a JSON object, got {os.environ.get(variable)!r}",
            f"name one setting, such as {variable}__NAME=value, or remove it",
        ) from error


def _check_file(config_file: Path) -> None:
    """Raise ConfigError for a file that is no TOML or has a key that means nothing."""
    try:
        data = tomllib.loads(config_file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            str(config_file), f"not valid TOML: {error}", "correct that line, or delete the file"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            str(config_file), f"cannot be read: {error}", "make it a readable UTF-8 file"
        ) from error
    for key in data:
        if key not in Config.model_fields:
            line, _ = _line_of(config_file, (key,))
            raise ConfigError(
                f"{config_file} line {line}, key {key}", _unknown((key,)), "rename or delete the key"
            )


def _unknown(keys: tuple[str, ...]) -> str:
    """Say that the last of the keys means nothing, and what would."""
    section: type[BaseModel] = Config
    for key in keys[:-1]:
        inner = section.model_fields[key].annotation
        if not isinstance(inner, type) or not issubclass(inner, BaseModel):
            break
        section = inner
    return f"unknown key '{keys[-1]}', wanted one of {', '.join(sorted(section.model_fields))}"


def _line_of(config_file: Path, keys: tuple[str, ...]) -> tuple[int, int]:
    """Return the line (from 1) that names a setting and how many of its keys it names; (0, 0) when none does."""
    best = (0, 0)
    section: tuple[str, ...] = ()
    for number, line in enumerate(config_file.read_text(encoding="utf-8").split("\n"), start=1):
        text = line.strip()
        if text.startswith("["):
            section = found = _keys(text.split("]")[0])
        elif "=" in text and not text.startswith("#"):
            found = section + _keys(text.split("=")[0])
        else:
            continue
        if found == keys[: len(found)] and len(found) > best[1]:
            best = (number, len(found))
    return best


def _keys(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted TOML key."""
    return tuple(part.strip("\"'") for part in _KEY.findall(text))


def _explain(error: ValidationError, config_file: Path | None) -> ConfigError:
    """Return our error for the first thing that is wrong, saying where it was set."""
    first: Any = error.errors()[0]
    keys = tuple(str(part) for part in first["loc"])
    is_unknown = first["type"] == "extra_forbidden"
    problem = _unknown(keys) if is_unknown else f"{first['msg']}, got {first['input']!r}"
    fix = "rename or delete the key" if is_unknown else "correct the value, or remove it for the default"
    return ConfigError(_place(keys, config_file), problem, fix)


def _place(keys: tuple[str, ...], config_file: Path | None) -> str:
    """Return where a setting was made: the variable, or file, line and key, whichever names it more exactly."""
    line, named = _line_of(config_file, keys) if config_file is not None and config_file.exists() else (0, 0)
    variables = {name.upper() for name in os.environ}
    for n in range(len(keys), max(named, 1) - 1, -1):
        if (variable := "HEADWATER_" + "__".join(keys[:n]).upper()) in variables:
            return f"environment {variable}"
    return f"{config_file} line {line}, key {'.'.join(keys)}" if line else f"setting {'.'.join(keys)}"
