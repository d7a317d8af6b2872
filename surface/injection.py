"""Context for agents: what each session was told already, its cap, and the answer to a hook.

The same question of a session gets the same answer as long as the project has no new turn; anything told once is not
told again until the session's context is emptied (a start, a clear, a compaction).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.query.context import Ask, Composed, ContextComposer
from headwater.query.context_text import NOTHING
from headwater.query.scope import one_of, where
from headwater.schemas import clock, limits
from headwater.schemas.clock import iso
from headwater.schemas.errors import InputError
from headwater.schemas.events import Kind
from headwater.schemas.ids import content_hash, digest
from headwater.storage.usage import Injection, ToldItem
from headwater.surface.request_context import project_scope, time_of

if TYPE_CHECKING:
    from datetime import datetime

    from headwater.surface.request_context import Context

STARTS = ("startup", "clear", "compact", "fork", "resume")
_RESUME = "resume"
_SAID = (Kind.PROMPT.value, Kind.RESPONSE.value, Kind.TOOL.value, Kind.INSIGHT.value)


def context_for_hook(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return what a hook tells its agent, and remember it as told.

    args: project, session, agent, event, source, prompt, asked_at_ns. Nothing is told, nor remembered as told, when the
    hook cannot be waiting any more.
    """
    session = f"{args.get('agent')}:{args.get('session')}"
    hook = _Hook(context, args, session)
    composed = hook.compose()
    late_ns = clock.now_ns() - int(args.get("asked_at_ns") or clock.now_ns())
    if late_ns > limits.INJECT_ANSWER_S * clock.NS_PER_S:
        return {"context": "", "meta": dict(composed.meta)}
    hook.remember(composed)
    return {"context": composed.text, "meta": dict(composed.meta)}


def preview(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return what an agent would be told with a prompt, and remember nothing; args: prompt, session, at (ISO 8601).

    The scope is a project: `project`, or that of the folder, `here`. Raises InputError without one.
    """
    scope = project_scope(context, args)
    if scope.project is None:
        raise InputError(
            "project", "a context is that of one project, and none is known here", "add --project"
        )
    config, mode = context.settings()
    prompt = str(args.get("prompt") or "")
    ask = Ask(scope.project, prompt or None, session=args.get("session"), at=time_of(args.get("at")))
    composed = ContextComposer(context.cache(), config, mode).compose(ask, config.retrieval.max_tokens)
    return {"context": composed.text, "meta": dict(composed.meta)}


class _Hook:
    """One call of a hook that asks."""

    def __init__(self, context: Context, args: dict[str, Any], session: str) -> None:
        self._context = context
        self._session = session
        self._own = str(args.get("session") or "")
        self._is_prompt = args.get("event") == "UserPromptSubmit"
        self._prompt = str(args.get("prompt") or "")[: limits.QUERY_CHARS] if self._is_prompt else None
        self._source = str(args.get("source") or STARTS[0])
        self._project = context.stores.called(str(args.get("project") or ""))
        self._key = ""
        self._again = False

    def compose(self) -> Composed:
        config, mode = self._context.settings()
        cache, usage, now = self._context.cache(), self._context.usage, clock.SYSTEM.now()
        starts_afresh = not self._is_prompt and self._source != _RESUME
        if starts_afresh:
            usage.start_afresh(self._session, now)
        last = cache.continuity(self._project, config).at
        stamp = "" if last is None else iso(last)
        what = self._source if self._prompt is None else "prompt"
        self._key = digest("ask", mode, what, content_hash(self._prompt or ""), stamp)
        told = () if starts_afresh else usage.injections(self._session)
        before = next((one for one in told if one.ask == self._key), None)
        others = [one for one in told if one.ask != self._key]
        spent_tokens = sum(one.tokens for one in others)
        budget_tokens = min(config.retrieval.max_tokens, limits.INJECT_SESSION_TOKENS - spent_tokens)
        ask = Ask(
            self._project,
            self._prompt,
            session=self._own,
            known=frozenset(key for one in others for key in one.ids),
            own_until=usage.fresh_start(self._session),
        )
        if self._source == _RESUME and not self._is_prompt:
            ask = replace(ask, newer_than=self._last_of_session(), own_until=None)
        if budget_tokens < limits.INJECT_TOKENS_MIN:
            return Composed("", {}, NOTHING.tokens, ())
        self._again = before is not None
        only = None if before is None else before.ids
        return ContextComposer(cache, config, mode).compose(ask, budget_tokens, only)

    def remember(self, composed: Composed) -> None:
        if not composed.text or self._again:
            return
        now, usage = clock.SYSTEM.now(), self._context.usage
        told = [
            ToldItem(
                self._session,
                self._key,
                key,
                self._project,
                now,
                not self._is_prompt,
                composed.scores.get(key),
            )
            for key in composed.keys
        ]
        usage.record_injection(self._session, Injection(self._key, now, composed.tokens, composed.keys), told)
        memories = [key.partition(":")[2] for key in composed.keys if key.startswith("memory:")]
        usage.mark_accessed(memories, now)

    def _last_of_session(self) -> datetime | None:
        """Return when the session last said or did something: what came after it is new to its agent."""
        scope = replace(self._context.stores.scope(self._project), session_id=self._own)
        rows = self._context.stores.events.scan(["at"], f"{where(scope)} AND {one_of('kind', _SAID)}")
        last: datetime | None = rows.get_column("at").max() if rows.height else None  # type: ignore[assignment]
        return last


INJECTION_OPERATIONS = {"context": context_for_hook, "preview": preview}
