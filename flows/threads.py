"""Threads: which subject of its project each turn belongs to. Config / logic / state, no Bytewax, time handed in.

A turn is decided when its answer comes, or when the session goes on, ends or falls silent without one; events of a
decided turn inherit its thread, and so do turns that say too little to be about something else ("go on").

The rule is a likelihood: how much better do the turn's terms fit the thread than the project as a whole? With c the
count of a term in the thread, n the sum of its counts, p the term's share in the project (which counts as if it held
`background` other terms, so that a young project can tell what it knows from what is new), mu the strength of smoothing
(Dirichlet) and w the term's weight in the turn,

    fit = (sum of w log(1 + c / (mu p)) over shared terms  -  W log(1 + n / mu))
          / (W + unknown_weight U) ** length_power

where W is the weight of terms the project knows and U that of the others. The session's current thread has
`stay_bonus` on top, for most turns go on. Best below `min_fit`: a new thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headwater.flows.turns import Turn, TurnConfig, Turns, short
from headwater.schemas import clock, ids, limits
from headwater.schemas.features import Features, stem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from headwater.schemas.events import Event


@dataclass(frozen=True, slots=True)
class ThreadConfig:
    """The rule's numbers; see the module. Weights are of terms by who said them, and of groups."""

    prompt_weight: float = 3.0
    response_weight: float = 1.0
    tool_weight: float = 0.5
    smoothing: float = 200.0
    background: float = 100.0
    unknown_weight: float = 0.2
    length_power: float = 0.6
    stay_bonus: float = 0.5
    resume_bonus: float = 0.2
    min_fit: float = 0.7
    short_prompt: int = 4
    open_s: float = limits.THREAD_OPEN_S
    open_max: int = limits.THREADS_OPEN
    terms_max: int = limits.THREAD_TERMS


@dataclass(frozen=True, slots=True)
class Assigned:
    """Events that are now known to belong to a thread.

    Their texts are cut (see `turns.short`). `at` is the time of the decision, which never goes back within a project;
    `turn` is None for what comes after the turn was decided, and inherits. `previous_thread` and `pause_s` tell what
    the project did before the turn.
    """

    thread_id: str
    events: tuple[Event, ...]
    at: datetime
    turn: Turn | None = None
    is_new: bool = False
    fit: float | None = None
    previous_thread: str | None = None
    pause_s: float = 0.0


@dataclass(slots=True)
class Thread:
    """An open thread: the counts of its terms, oldest first, and the time of its last turn."""

    id: str
    at: datetime
    terms: dict[str, int] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class ThreadState:
    """What is known of one project: its open threads, who is where, and which turns were decided."""

    threads: dict[str, Thread] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)  # session key -> thread id
    last_thread: str | None = None
    last_at: datetime | None = None
    decided: dict[str, tuple[str, datetime]] = field(
        default_factory=dict
    )  # turn key -> thread id, last event

    def plain(self) -> dict[str, Any]:
        """Return the state as plain versioned data for a snapshot."""
        return {
            "v": 1,
            "threads": [
                [t.id, clock.to_ns(t.at), [list(item) for item in t.terms.items()]]
                for t in self.threads.values()
            ],
            "current": [list(item) for item in self.current.items()],
            "last_thread": self.last_thread,
            "last_at_ns": None if self.last_at is None else clock.to_ns(self.last_at),
            "decided": [[key, thread_id, clock.to_ns(at)] for key, (thread_id, at) in self.decided.items()],
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any] | None) -> ThreadState:
        """Return the state of a snapshot; of an unknown version, an empty one."""
        if data is None or data.get("v") != 1:
            return cls()
        last_at_ns = data["last_at_ns"]
        return cls(
            {
                id_: Thread(id_, clock.from_ns(at_ns), dict(terms), sum(n for _, n in terms))
                for id_, at_ns, terms in data["threads"]
            },
            dict(data["current"]),
            data["last_thread"],
            None if last_at_ns is None else clock.from_ns(last_at_ns),
            {key: (thread_id, clock.from_ns(at_ns)) for key, thread_id, at_ns in data["decided"]},
        )


class ThreadLogic:
    """Gives every event of one project's turns its thread; input in the order (at, agent, session, seq)."""

    def __init__(
        self,
        config: ThreadConfig,
        state: ThreadState,
        turns: Turns | None = None,
        turn_config: TurnConfig | None = None,
    ) -> None:
        """Go on from a state."""
        self._config = config
        self._state = state
        self._turns = Turns({}) if turns is None else turns
        self._turn_config = TurnConfig() if turn_config is None else turn_config
        self._counts: dict[str, int] = {}
        self._total = 0
        for thread in state.threads.values():
            self._count(thread.terms, 1)

    @classmethod
    def from_snapshot(cls, config: ThreadConfig, data: dict[str, Any] | None) -> ThreadLogic:
        """Return the logic of a snapshot; of none or of an unknown version, a fresh one."""
        parts = data if data is not None and data.get("v") == 1 else {}
        return cls(config, ThreadState.from_plain(parts.get("threads")), Turns.from_plain(parts.get("turns")))

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return {"v": 1, "threads": self._state.plain(), "turns": self._turns.plain()}

    def on_event(self, event: Event) -> list[Assigned]:
        """Return what is decided by this event: turns before it, its own turn, or the thread that it inherits."""
        found = self.on_time(event.at)
        ready, key = self._turns.take(event, self._is_decided)
        # taken before others are decided, which may forget the very turn that this event comes to
        inherited = None if key is None else self._state.decided[key][0]
        found += [self._decide(turn, event.at) for turn in ready]
        if key is not None and inherited is not None:
            thread_id = inherited
            self._state.decided.pop(key, None)
            self._state.decided[key] = (thread_id, event.at)
            self._touch(thread_id, event.at)
            found.append(Assigned(thread_id, (short(event),), event.at))
        return found

    def on_time(self, now: datetime) -> list[Assigned]:
        """Return what is decided because time passed: turns without an answer. Only what `now` implies."""
        return [
            self._decide(turn, at) for turn, at in self._turns.silent_since(now, self._turn_config.idle_s)
        ]

    def due_at(self) -> datetime | None:
        """Return when `on_time` would next decide something, None when nothing waits."""
        return self._turns.due_at(self._turn_config.idle_s)

    def _is_decided(self, key: str) -> bool:
        return key in self._state.decided

    def _decide(self, turn: Turn, at: datetime) -> Assigned:
        state, config = self._state, self._config
        self._forget(at)
        terms = turn_terms(turn, config)
        current = state.current.get(turn.session_key)
        base = current if current in state.threads else None
        if base is None and state.last_thread in state.threads:
            base = state.last_thread
        fit: float | None = None
        if base is not None and says_little(turn.prompt, config):
            thread_id = base
        else:
            thread_id, fit = self._best(terms, current, base)
        is_new = not thread_id
        if is_new:
            thread_id = "thr_" + ids.digest("thread", turn.project, turn.events[0].id)
            state.threads[thread_id] = Thread(thread_id, turn.last_at)
        self._learn(state.threads[thread_id], terms, turn.last_at)
        pause_s = 0.0 if state.last_at is None else max(0.0, (turn.first_at - state.last_at).total_seconds())
        found = Assigned(thread_id, turn.events, at, turn, is_new, fit, state.last_thread, pause_s)
        state.current.pop(turn.session_key, None)
        state.current[turn.session_key] = state.last_thread = thread_id
        state.last_at = turn.last_at if state.last_at is None else max(turn.last_at, state.last_at)
        state.decided[turn.key] = (thread_id, at)
        return found

    def _best(self, terms: Mapping[str, float], current: str | None, base: str | None) -> tuple[str, float]:
        """Return the thread that fits best and how well; "" when none fits well enough."""
        config, mu = self._config, self._config.smoothing
        factor = (self._total + config.background) / mu
        counts = self._counts
        known = {term: w for term, w in terms.items() if term in counts}
        weight = math.fsum(known.values())
        length = weight + config.unknown_weight * (math.fsum(terms.values()) - weight)
        scale = max(length, 1.0) ** config.length_power
        best, best_fit = "", -math.inf
        for thread in self._state.threads.values():
            held = thread.terms
            gain = math.fsum(  # exact, whatever the order
                weighed * math.log1p(held[term] * factor / (counts[term] + 0.5))
                for term, weighed in known.items()
                if term in held
            )
            fit = (gain - weight * math.log1p(thread.size / mu)) / scale
            if thread.id == current:
                fit += config.stay_bonus
            elif current is None and thread.id == base:
                fit += config.resume_bonus
            if (fit, thread.id) > (best_fit, best):
                best, best_fit = thread.id, fit
        return (best, best_fit) if best_fit >= config.min_fit else ("", best_fit)

    def _learn(self, thread: Thread, terms: Mapping[str, float], at: datetime) -> None:
        for term in terms:
            thread.terms[term] = thread.terms.pop(term, 0) + 1  # moved to the end: the newest
        self._count(dict.fromkeys(terms, 1), 1)
        surplus = list(thread.terms)[: max(0, len(thread.terms) - self._config.terms_max)]
        self._count({term: thread.terms.pop(term) for term in surplus}, -1)
        thread.size = sum(thread.terms.values())
        thread.at = max(thread.at, at)

    def _count(self, terms: Mapping[str, int], sign: int) -> None:
        for term, number in terms.items():
            left = self._counts.get(term, 0) + sign * number
            self._total += sign * number
            if left > 0:
                self._counts[term] = left
            else:
                self._counts.pop(term, None)

    def _touch(self, thread_id: str, at: datetime) -> None:
        thread = self._state.threads.get(thread_id)
        if thread is not None:
            thread.at = max(thread.at, at)

    def _forget(self, now: datetime) -> None:
        """Let go of threads that are over, and of turns that nothing comes after any more."""
        state, config = self._state, self._config
        oldest = now - timedelta(seconds=config.open_s)
        over = [thread for thread in state.threads.values() if thread.at < oldest]
        surplus = len(state.threads) - len(over) - config.open_max + 1  # there is room for a new one
        if surplus > 0:
            rest = sorted((t for t in state.threads.values() if t.at >= oldest), key=lambda t: (t.at, t.id))
            over += rest[:surplus]
        for thread in over:
            self._count(thread.terms, -1)
            del state.threads[thread.id]
        if over:
            state.current = {key: id_ for key, id_ in state.current.items() if id_ in state.threads}
        while len(state.current) > limits.TURNS_KEPT:
            del state.current[next(iter(state.current))]
        keep = now - timedelta(seconds=self._turn_config.keep_s)
        while state.decided:
            key = next(iter(state.decided))
            if state.decided[key][1] >= keep and len(state.decided) <= limits.TURNS_KEPT:
                break
            del state.decided[key]


def says_little(prompt: Features, config: ThreadConfig) -> bool:
    """Whether a prompt names too little to be about something else."""
    return len(prompt.topics) + len(prompt.files) + len(prompt.entities) <= config.short_prompt


def turn_terms(turn: Turn, config: ThreadConfig) -> dict[str, float]:
    """Return the terms of a turn with their weights: stems, last names of identifiers, names of files."""
    terms: dict[str, float] = {}
    for features, weight in (
        (turn.prompt, config.prompt_weight),
        (turn.response, config.response_weight),
        (turn.tools, config.tool_weight),
    ):
        for name in _terms(features):
            terms[name] = max(terms.get(name, 0.0), weight)
    return terms


def _terms(features: Features) -> list[str]:
    return [
        *(stem(topic) for topic in features.topics),
        *("e:" + name.rpartition(".")[2].rpartition("::")[2] for name in features.entities),
        *("f:" + path.rpartition("/")[2] for path in features.files),
    ]
