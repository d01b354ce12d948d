"""Live progress of a comparison: a line per running arm and seed, with the time left."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from corewarding.compare import Plan
from corewarding.runner import Event

__all__ = ["Display"]

_ENDED = ("done", "failed")


@dataclass(slots=True)
class _State:
    event: Event
    started: float = field(default_factory=time.monotonic)
    phase_started: float = field(default_factory=time.monotonic)
    first_step: int = 0


class Display:
    """Shows `Event`s: live on a terminal, as plain lines elsewhere, nothing if `quiet`."""

    def __init__(self, plan: Plan, workers: int, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True)
        self._quiet = quiet
        self._total = len(plan.runs)
        self._workers = min(workers, self._total)
        self._running: dict[tuple[str, int], _State] = {}
        self._durations: list[float] = []
        self._started = time.monotonic()
        live = self._console.is_terminal and not quiet
        self._live = Live(console=self._console, refresh_per_second=4) if live else None

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def on_event(self, event: Event) -> None:
        """Take note of an event and redraw."""
        key = (event.arm, event.seed)
        old = self._running.get(key)
        changed = old is None or old.event.phase != event.phase or old.event.note != event.note
        state = old or _State(event)
        if old is None or old.event.phase != event.phase:
            state.phase_started = time.monotonic()
            state.first_step = max(event.done - 1, 0)
        state.event = event
        self._running[key] = state
        if event.phase in _ENDED:
            self._durations.append(time.monotonic() - state.started)
            del self._running[key]
        if self._live:
            self._live.update(self._table())
        elif not self._quiet and changed:
            self._line(state)

    def _line(self, state: _State) -> None:
        """One plain line, sparingly: at each phase and at each tenth of the training."""
        event = state.event
        if event.phase == "train" and event.done % max(event.total // 10, 1):
            return
        finished = f"[{len(self._durations)}/{self._total}]"
        steps = f" {event.done}/{event.total}" if event.total else ""
        left = f", {_clock(self._left(state))} left" if event.phase == "train" else ""
        note = f" ({event.note})" if event.note else ""
        overall = f", all: {_clock(self._overall())} left" if event.phase == "done" else ""
        self._console.print(
            f"{finished} {_clock(time.monotonic() - self._started)} {event.arm} seed {event.seed}: "
            f"{event.phase}{steps}{note}{left}{overall}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    def _table(self) -> Table:
        table = Table(
            title=f"{len(self._durations)} of {self._total} runs done, "
            f"{_clock(self._overall())} left",
            expand=False,
        )
        for heading in ("arm", "seed", "phase", "progress", "left", ""):
            table.add_column(heading)
        for (arm, seed), state in self._running.items():
            event = state.event
            share = event.done / event.total if event.total else 0.0
            bar = "━" * round(20 * share) + "─" * (20 - round(20 * share)) if event.total else ""
            left = _clock(self._left(state)) if event.total else ""
            table.add_row(arm, str(seed), event.phase, bar, left, event.note)
        return table

    def _left(self, state: _State) -> float | None:
        """Seconds until this run's training ends, from its own pace."""
        event = state.event
        made = event.done - state.first_step
        if made <= 0:
            return None
        pace = (time.monotonic() - state.phase_started) / made
        return pace * (event.total - event.done)

    def _overall(self) -> float | None:
        """Seconds until everything ends, from the mean length of the runs that ended."""
        if not self._durations:
            return None
        mean = sum(self._durations) / len(self._durations)
        waiting = self._total - len(self._durations) - len(self._running)
        under_way = sum(
            max(mean - (time.monotonic() - state.started), 0) for state in self._running.values()
        )
        return (waiting * mean + under_way) / max(self._workers, 1)


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
