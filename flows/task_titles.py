"""Titles of tasks that an agent writes down, read from the text of its tool call. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headwater.schemas.ids import task_title_id

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK_TOOLS = ("TodoWrite", "TaskCreate")


def task_titles(event_id: str, tool: str | None, content: str) -> dict[str, str]:
    """Return item id -> title of the tasks that a tool call brings in; none for any other tool.

    A list that is written again repeats its tasks, and says in its answer which ones it held before: only the others
    are new, so that a title is an item once. A text that was clipped says nothing: what is left of it is no JSON.
    """
    if tool not in TASK_TOOLS:
        return {}
    asked, answer = _objects(content, tool)
    titles = [asked.get("subject")] if tool == "TaskCreate" else list(_contents(asked.get("todos")))
    before = set(_contents(answer.get("oldTodos")))
    found: dict[str, str] = {}
    for n, title in enumerate(titles):
        if isinstance(title, str) and title.strip() and title not in before:
            before.add(title)
            found[task_title_id(event_id, n)] = title
    return found


def _contents(todos: Any) -> Iterator[Any]:
    """Yield the text of each entry of a list of tasks, None for one without."""
    for todo in todos if isinstance(todos, list) else []:
        content = todo.get("content") if isinstance(todo, dict) else None
        yield content if isinstance(content, str) else None


def _objects(content: str, tool: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was asked and what was answered: the text is the tool's name, JSON, a line's end, JSON or words."""
    decoder = json.JSONDecoder()
    try:
        asked, end = decoder.raw_decode(content, len(tool) + 1)
    except ValueError:
        return {}, {}
    try:
        answer, _ = decoder.raw_decode(content, end + 1)
    except ValueError:  # words
        answer = {}
    return (asked if isinstance(asked, dict) else {}), (answer if isinstance(answer, dict) else {})
