"""The model hub and its cache on this disk. Asked only when a person names a model of it, or a setting allows it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from headwater.schemas import limits
from headwater.schemas.errors import ModelError

_TRUE = ("1", "ON", "YES", "TRUE")


def cache_folder() -> Path:
    """Return the hub's cache folder, by the same variables and in the same order as the hub's own client."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser()
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]).expanduser() / "hub"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface" / "hub"


def snapshot(model: str) -> Path | None:
    """Return the newest snapshot of a model in the hub's cache, None when it is not there."""
    root = cache_folder() / f"models--{model.replace('/', '--')}"
    main = root / "refs" / "main"
    if not main.is_file():
        return None
    folder = root / "snapshots" / main.read_text(encoding="ascii", errors="replace").strip()
    there = any((folder / name).is_file() for name in ("modules.json", "config.json"))
    return folder if there else None


def download(model: str) -> Path:
    """Return the snapshot of a model, fetched from the hub. Raises ModelError, at once when the hub is out of reach."""
    _check_reachable(model)
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(model, allow_patterns=["*.json", "*.safetensors", "*.model", "*.txt"]))
    except Exception as error:
        problem = f"wanted to download it, got {type(error).__name__}: {str(error)[:200]}"
        raise ModelError(
            f"embedding model {model}", problem, "check the name and the network, or use minilm"
        ) from error


def _check_reachable(model: str) -> None:
    """Raise ModelError at once when the hub cannot be reached: its own client asks five times, for over a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE:
        raise ModelError(
            f"embedding model {model}",
            "wanted to download it, but HF_HUB_OFFLINE is set",
            "unset it, or use minilm",
        )
    if os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"):
        return  # only the proxy knows
    hub = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    port = hub.port or (80 if hub.scheme == "http" else 443)
    try:
        socket.create_connection((hub.hostname or "", port), limits.HUB_CONNECT_S).close()
    except OSError as error:
        raise ModelError(
            f"embedding model {model}",
            f"wanted to download it from {hub.hostname}, got: {error}",
            "connect to the network, or use a model that is here: headwater models",
        ) from error
