"""What an agent can ask over MCP: tools, resources, arguments and answers. The protocol itself is not known here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.schemas import limits
from headwater.schemas.errors import HeadwaterError, InputError
from headwater.schemas.events import Kind
from headwater.surface.asker import Asker
from headwater.surface.options import day_after, whole_day
from headwater.surface.pages import page_of
from headwater.surface.projects import resolve_project

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RULES = """# Memory Search Workflow

1. **Always start with `search`** to get compact index
2. **Review scores** before expanding
3. **Use `timeline`** if context is needed
4. **Only call `get_observations`** for selected IDs
5. **Never** fetch all details at once
"""
WORKING_SET, MEMORIES = "headwater://working-set", "headwater://memories"
RESOURCES = {
    WORKING_SET: ("working_set", "Working set", "What is active in this project now, and what it is about"),
    MEMORIES: ("memories", "Memories", "The newest consolidated memories of this project"),
}
_FRAME_TOKENS = 200  # of a page: what says where it stands and how to go on
_ERROR_CHARS = 600

_TEXT: dict[str, Any] = {"type": "string"}
_SCOPE: dict[str, Any] = {
    "project": _TEXT
    | {"description": "Folder or name of a project; default the one the server was started in"},
    "all_projects": {"type": "boolean", "description": "Look in all projects"},
    "since": _TEXT | {"description": "Day or time in ISO 8601, such as 2026-03-24; a day is a local one"},
    "until": _TEXT | {"description": "The same; a day is taken whole"},
    "kind": {"type": "array", "items": {"type": "string", "enum": [kind.value for kind in Kind]}},
    "session": _TEXT | {"description": "Only this session"},
    "agent": _TEXT | {"description": "Only this agent, such as claude-code"},
    "file": _TEXT | {"description": "Only events that touch this file, relative to the project"},
    "format": {"type": "string", "enum": ["markdown", "json"]},
    "cursor": _TEXT | {"description": "From an answer that says there is more; all else unchanged"},
}
_IDS: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "maxItems": limits.DETAILS_MAX}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name, what it says of itself, and the JSON schema of each argument."""

    name: str
    description: str
    arguments: Mapping[str, Any]
    required: tuple[str, ...] = ()


def _whole(name: str) -> Tool:
    return Tool(
        name,
        "Layer 3: whole items by their ids. Costly: only for ids selected from search or timeline.",
        {"ids": _IDS, **_SCOPE},
        ("ids",),
    )


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("__IMPORTANT", f"How to search memory, in five rules.\n\n{RULES}", {}),
        Tool(
            "search",
            "Layer 1: search what was said, done and decided, by words and meaning. Returns a compact index of ids, one"
            " line each with a score; sure results are expanded by themselves. Always start here.",
            {
                "query": _TEXT | {"description": "Plain words, names, paths, an error; any language"},
                "top_k": {"type": "integer", "minimum": 1, "maximum": limits.TOP_K_MAX},
                "min_score": {"type": "number", "minimum": 0, "maximum": 1},
                "max_tokens": {"type": "integer", "minimum": 100, "maximum": limits.MCP_TOKENS},
                "disclosure": {"type": "string", "enum": ["auto", "index", "timeline", "details"]},
                **_SCOPE,
            },
            ("query",),
        ),
        Tool(
            "timeline",
            "Layer 2: what happened around some ids, or, without ids, from since to until.",
            {
                "ids": _IDS,
                "window": {"type": "integer", "minimum": 0, "maximum": limits.TIMELINE_WINDOW_MAX},
                "limit": {"type": "integer", "minimum": 1, "maximum": limits.TIMELINE_ROWS_MAX},
                **_SCOPE,
            },
        ),
        _whole("get_details"),
        _whole("get_observations"),
    )
}
_OTHER_NAMES = {"observation_ids": "ids", "window_size": "window", "kinds": "kind"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A text for an agent, and whether it says that something was wrong."""

    text: str
    is_error: bool = False


class MemoryTools:
    """Answers the tools of one agent. Each answer is at most MCP_TOKENS by its estimate; errors are answers too."""

    def __init__(self, asker: Asker, here: str | None) -> None:
        """Remember whom to ask; `here` is the project unless an argument names another one, None: all projects."""
        self._asker = asker
        self._here = here

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> Answer:
        """Return the answer of a tool. Never raises what an argument or a store is at fault for."""
        try:
            return Answer(self._called(name, _checked(name, arguments or {})))
        except HeadwaterError as error:
            return Answer(_error_text(error), is_error=True)

    def read(self, uri: str) -> str:
        """Return the text of a resource. Raises InputError for one that does not exist, and what a store raises."""
        if uri not in RESOURCES:
            raise InputError(
                f"resource {uri[:80]}", "there is none of that name", f"read one of {', '.join(RESOURCES)}"
            )
        operation = RESOURCES[uri][0]
        args: dict[str, Any] = self._project({}) | {"text": True}
        if operation == "memories":
            args["top_k"] = limits.INJECT_LOOK
        found = page_of(self._asker.ask(operation, args)["text"], "", limits.MCP_TOKENS - _FRAME_TOKENS)
        return found.text + ("\n\nThere is more: use the tool search." if found.cursor else "")

    def _called(self, name: str, args: dict[str, Any]) -> str:
        if name == "__IMPORTANT":
            return RULES
        make = {"search": self._search, "timeline": self._timeline}.get(name, self._details)
        text, step = make(args)
        room = limits.MCP_TOKENS - _FRAME_TOKENS
        found = page_of(text, str(args.get("cursor") or ""), room)
        if not found.cursor and not found.start:
            return f"{found.text}\n\n{step}" if step else found.text
        where = f"[characters {found.start + 1} to {found.end} of {found.total}."
        if not found.cursor:
            return f"{found.text}\n\n{where[:-1]}, the end.]"
        return f'{found.text}\n\n{where} More: call {name} again with the same arguments and cursor="{found.cursor}"]'

    def _search(self, args: dict[str, Any]) -> tuple[str, str]:
        asked = self._scope(args) | {
            name: args[name] for name in ("top_k", "min_score", "disclosure") if name in args
        }
        asked |= {"query": str(args["query"])[: limits.QUERY_CHARS]}
        if "max_tokens" in args:
            asked["max_tokens"] = args["max_tokens"]
        answer = self._asker.ask("search", asked)
        text = _json_text(answer) if _is_json(args) else answer["text"]
        shown = [row["id"] for row in answer["index"]]
        if not shown and not answer["timeline"] and not answer["details"]:
            return text, "Nothing found. Next: other words, or all_projects=true."
        note = self._asker.note()
        step = f'Next: get_details(ids=["{shown[0]}"]) for the whole, timeline(ids=[...]) for what happened around it.'
        return text, "" if _is_json(args) else "\n".join(
            part for part in (note, step if shown else "") if part
        )

    def _timeline(self, args: dict[str, Any]) -> tuple[str, str]:
        asked = self._scope(args) | {name: args[name] for name in ("ids", "window", "limit") if name in args}
        answer = self._asker.ask("timeline", asked)
        if _is_json(args):
            return _json_text(answer), ""
        more = f"{answer['more']} more: raise limit, or narrow since and until.\n" if answer["more"] else ""
        return answer[
            "text"
        ], f"{more}{_unknown(answer['unknown'])}Next: get_details(ids=[...]) for selected ids."

    def _details(self, args: dict[str, Any]) -> tuple[str, str]:
        answer = self._asker.ask("details", self._scope(args) | {"ids": args["ids"]})
        return (
            (_json_text(answer), "")
            if _is_json(args)
            else (answer["text"], _unknown(answer["unknown"]).strip())
        )

    def _scope(self, args: dict[str, Any]) -> dict[str, Any]:
        scope = self._project(args) | {
            name: str(args[name]) for name in ("session", "agent", "file") if name in args
        }
        scope |= {"kinds": args.get("kind", []), "text": "markdown"}
        if "since" in args:
            scope["since"] = whole_day("since", args["since"])
        if "until" in args:
            scope["until"] = day_after("until", args["until"])
        return scope

    def _project(self, args: dict[str, Any]) -> dict[str, Any]:
        named = args.get("project")
        if args.get("all_projects"):
            return {"all_projects": True}
        if named:
            return {"project": resolve_project(named) if named.startswith("/") else named}
        return {"project": self._here} if self._here is not None else {"all_projects": True}


def _checked(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool by their names, null ones left out. Raises InputError."""
    tool = TOOLS.get(name)
    if tool is None:
        raise InputError(f"tool {name[:40]}", "there is none of that name", f"call one of {', '.join(TOOLS)}")
    found: dict[str, Any] = {}
    for given, value in arguments.items():
        argument = _OTHER_NAMES.get(given, given)
        if argument not in tool.arguments:
            wanted = ", ".join(tool.arguments) or "none"
            raise InputError(f"argument {given[:40]}", f"unknown, wanted one of {wanted}", "leave it out")
        if value is not None:
            found[argument] = _typed(given, value, tool.arguments[argument])
    for argument in tool.required:
        if argument not in found:
            raise InputError(argument, f"{name} wants it, got none", f"pass {argument}")
    return found


def _typed(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value of the type that its schema names; one text stands for a list of one. Raises InputError."""
    checks: dict[str, Callable[[Any], bool]] = {
        "string": lambda one: isinstance(one, str),
        "boolean": lambda one: isinstance(one, bool),
        "integer": lambda one: isinstance(one, int) and not isinstance(one, bool),
        "number": lambda one: isinstance(one, int | float) and not isinstance(one, bool),
        "array": lambda one: isinstance(one, list) and all(isinstance(each, str) for each in one),
    }
    kind = schema["type"]
    if kind == "array" and isinstance(value, str):
        value = [value]
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not checks[kind](value):
        raise InputError(
            name[:40], f"wanted {_NAMES[kind]}, got {value!r:.60}", "correct it, or leave it out"
        )
    if "enum" in schema and value not in schema["enum"]:
        raise InputError(
            name, f"wanted one of {', '.join(schema['enum'])}, got {value!r:.60}", "name one of them"
        )
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        wanted = f"{schema['minimum']} to {schema['maximum']}"
        raise InputError(name, f"wanted {wanted}, got {value!r:.60}", "name a number within that")
    return value


_NAMES = {
    "string": "a text", "boolean": "true or false", "integer": "a whole number", "number": "a number",
    "array": "a list of texts",
}  # fmt: skip


def _is_json(args: Mapping[str, Any]) -> bool:
    return args.get("format") == "json"


def _json_text(answer: Mapping[str, Any]) -> str:
    """Return an answer as JSON; each row has its kind and time under their other names as well."""
    rows = {
        name: [row | {"type": row["kind"], "timestamp": row["at"]} for row in answer[name]]
        for name in ("index", "timeline", "details")
        if answer.get(name) is not None
    }
    others = {name: value for name, value in answer.items() if name not in rows and name != "text"}
    return json.dumps(rows | others, ensure_ascii=False)


def _unknown(ids: list[str]) -> str:
    if not ids:
        return ""
    return f"Not found in this scope: {', '.join(one[:40] for one in ids)}. all_projects=true looks everywhere.\n"


def _error_text(error: HeadwaterError) -> str:
    """Return an error as one line with the next step for an agent."""
    fix = error.fix
    if "--all-projects" in fix:
        fix = "call search for ids, or pass all_projects=true"
    text = f"Error: {error.where}: {error.problem}. Next: {fix}"
    return " ".join(text.split())[:_ERROR_CHARS]
