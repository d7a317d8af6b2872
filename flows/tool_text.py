"""Text and files of a tool call: what was asked, and what came back, whatever shape it has."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from headwater.schemas import limits
from headwater.schemas.events import FileOp, FileRef

_OPS = {
    "Read": FileOp.READ,
    "NotebookRead": FileOp.READ,
    "Edit": FileOp.EDIT,
    "MultiEdit": FileOp.EDIT,
    "NotebookEdit": FileOp.EDIT,
    "Write": FileOp.WRITE,
}
_PATH_KEYS = ("file_path", "notebook_path", "path")
_PATCH = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.MULTILINE)
_PATCH_OPS = {"Add": FileOp.WRITE, "Update": FileOp.EDIT, "Delete": FileOp.DELETE}
_DRIVE = re.compile(r"[A-Za-z]:")
_TEXT_KEYS = ("text", "stdout", "stderr", "content", "output", "result", "message", "error")


def flatten(value: Any, depth: int = 0) -> str:
    """Return any tool value as text: strings as they are, blocks by their text, the rest as compact JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if depth >= limits.NESTING_MAX:
        return "…"
    if isinstance(value, list):
        return "\n".join(text for item in value if (text := flatten(item, depth + 1)))
    if isinstance(value, dict):
        if value.get("type") == "image" or "base64" in value:
            return "[image]"
        if isinstance(value.get("file"), dict):
            return flatten(value["file"].get("content") or value["file"].get("filePath"), depth + 1)
        parts = [flatten(value[key], depth + 1) for key in _TEXT_KEYS if value.get(key)]
        return "\n".join(part for part in parts if part) or json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def tool_content(name: str, tool_input: Any, tool_response: Any, error: str | None) -> str:
    """Return one text for a call: a first line that says what was asked, then what came back."""
    asked = _asked(name, tool_input)
    answer = _answer(name, tool_response)
    parts = [asked, answer, f"error: {error}" if error else ""]
    return "\n".join(part for part in parts if part)


def tool_files(name: str, tool_input: Any, project: str) -> tuple[FileRef, ...]:
    """Return the files that a call names, each once per operation, relative to the project when inside it."""
    refs: dict[FileRef, None] = {}
    if isinstance(tool_input, dict):
        if name in _OPS:
            for key in _PATH_KEYS:
                path = tool_input.get(key)
                if isinstance(path, str) and path:
                    refs[FileRef(relative(path, project), _OPS[name])] = None
                    break
        command = (
            tool_input.get("command") if name == "apply_patch" else None
        )  # a shell command may hold any text
        for text in (command, tool_input.get("patch"), tool_input.get("input")):
            if isinstance(text, str):
                refs |= dict.fromkeys(patch_files(text, project))
    elif isinstance(tool_input, str):
        refs |= dict.fromkeys(patch_files(tool_input, project))
    return tuple(refs)


def patch_files(patch: str, project: str) -> list[FileRef]:
    """Return the files of an `apply_patch` text."""
    return [
        FileRef(relative(path.strip(), project), _PATCH_OPS[verb]) for verb, path in _PATCH.findall(patch)
    ]


def relative(path: str, project: str) -> str:
    """Return a path with `/`, relative to the project when it lies inside it."""
    if "\\" in path or _DRIVE.match(path):
        path, project = _windows(path), _windows(project)
    path = str(PurePosixPath(path)) if path else path
    root = project.rstrip("/")
    if root and (path == root or path.startswith(root + "/")):
        return path[len(root) + 1 :] or "."
    return path


def _windows(path: str) -> str:
    """Return a Windows path with `/` and its drive in capitals, for both are written either way."""
    path = PureWindowsPath(path).as_posix()
    return path[:1].upper() + path[1:] if _DRIVE.match(path) else path


def _asked(name: str, tool_input: Any) -> str:
    if not isinstance(tool_input, dict):
        return f"{name}: {flatten(tool_input)}" if tool_input is not None else name
    if name == "Bash" and isinstance(tool_input.get("command"), str):
        description = tool_input.get("description")
        comment = f"  # {description}" if isinstance(description, str) and description else ""
        return f"$ {tool_input['command']}{comment}"
    if name in _OPS:
        return "\n".join(
            [
                f"{name} {next((tool_input[k] for k in _PATH_KEYS if tool_input.get(k)), '')}",
                *_changes(tool_input),
            ]
        )
    return f"{name} {json.dumps(tool_input, ensure_ascii=False, default=str)}" if tool_input else name


def _changes(tool_input: dict[str, Any]) -> list[str]:
    """Return the changed text of an edit as lines marked - and +, or the whole text of a write."""
    edits = tool_input.get("edits") if isinstance(tool_input.get("edits"), list) else [tool_input]
    lines: list[str] = []
    for edit in edits or []:
        if isinstance(edit, dict):
            for key, mark in (("old_string", "- "), ("new_string", "+ ")):
                if isinstance(edit.get(key), str) and edit[key]:
                    lines += [mark + line for line in edit[key].split("\n")]
    for key in ("content", "new_source"):
        if isinstance(tool_input.get(key), str):
            lines.append(tool_input[key])
    return lines


def _answer(name: str, tool_response: Any) -> str:
    """Return what came back; an edit's answer repeats the request, so only its text form is kept."""
    if name in ("Edit", "MultiEdit", "Write", "NotebookEdit") and isinstance(tool_response, dict):
        return ""
    if isinstance(tool_response, dict) and tool_response.get("isImage"):
        return "[image]"
    return flatten(tool_response)
