"""Lines of agents' own logs without what no event needs: usage, signatures, thoughts, snapshots, images."""

from __future__ import annotations

from typing import Any

from headwater.flows.claude_transcripts import blocks_of, is_call, is_result
from headwater.schemas import limits

_DROPPED = (
    "usage",
    "signature",
    "thinking",
    "snapshot",
    "base64",
    "originalFile",
    "toolUseResult",
    "message",
)
_TEXTS = ("type", "text", "id", "name", "input", "tool_use_id", "is_error")
_RESULT_KEPT: tuple[str, ...] = ("type", "tool_use_id", "is_error")
_RESULT_DROPPED = ("usage", "originalFile", "originalFileContents", "toolStats")
_META_DROPPED = ("base_instructions", "instructions", "dynamic_tools", "user_instructions")
_ITEM_DROPPED = ("encrypted_content", "replacement_history", "summary", "text_elements", "input_messages")


def slim_line(line: dict[str, Any]) -> dict[str, Any]:
    """Return a transcript line with its message, its result and its small fields."""
    kept = {key: value for key, value in line.items() if key not in _DROPPED and _is_small(value)}
    marks = line.get("compactMetadata")
    if isinstance(marks, dict):
        kept["compactMetadata"] = {key: value for key, value in marks.items() if _is_small(value)}
    message = line.get("message")
    if isinstance(message, dict):
        small = {key: value for key, value in message.items() if key != "content" and _is_small(value)}
        kept["message"] = small | {"content": [_block(line, block) for block in blocks_of(line)]}
    result = line.get("toolUseResult")
    if _tells_more(line):
        kept["toolUseResult"] = _result(result)
    return kept


def slim_item(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload of a rollout line without instructions, encrypted thoughts and repeated history."""
    kept = {key: value for key, value in payload.items() if key not in (*_META_DROPPED, *_ITEM_DROPPED)}
    for key in ("images", "local_images"):
        if isinstance(kept.get(key), list):
            kept[key] = ["[image]"] * len(kept[key])
    content = kept.get("content")
    if isinstance(content, list):
        kept["content"] = [_without_image(block) for block in content]
    if isinstance(kept.get("output"), list):
        kept["output"] = [_without_image(block) for block in kept["output"]]
    return kept


def _tells_more(line: dict[str, Any]) -> bool:
    """Return whether the structured result stands for the text: it is what a hook gets, but not for errors."""
    results = [block for block in blocks_of(line) if is_result(block)]
    told = line.get("toolUseResult")
    return len(results) == 1 and results[0].get("is_error") is not True and isinstance(told, dict | list)


def _block(line: dict[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    if is_result(block):
        kept: dict[str, Any] = {key: block[key] for key in _RESULT_KEPT if key in block}
        return kept if _tells_more(line) else kept | {"content": _content(block.get("content"))}
    if is_call(block) or block.get("type") == "text":
        return {key: block[key] for key in _TEXTS if key in block}
    return {"type": block.get("type")}


def _content(content: Any) -> Any:
    return [_without_image(block) for block in content] if isinstance(content, list) else content


def _without_image(block: Any) -> Any:
    if isinstance(block, dict) and block.get("type") in ("image", "input_image", "document"):
        return {"type": "image"}
    return block


def _result(result: Any) -> Any:
    if not isinstance(result, dict):
        return _content(result)
    if result.get("type") == "image":
        return {"type": "image"}
    kept = {key: value for key, value in result.items() if key not in _RESULT_DROPPED}
    if isinstance(kept.get("content"), list):
        kept["content"] = _content(kept["content"])
    return kept


def _is_small(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= limits.SMALL_FIELD_CHARS
    return value is None or isinstance(value, bool | int | float)
