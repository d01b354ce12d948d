"""Grade many answers with a bound on the time and memory of each.

Most pairs are decided without computer algebra, in this process (`grading.decide`). The rest go
to worker processes, which start only then and are killed when one answer takes too long; a killed
worker is replaced and the batch goes on. Works from any thread and needs no ``__main__`` guard.

A worker is ``python -c "...serve()"`` speaking JSON lines: one request of many pairs, one reply
line a pair, so that the parent can time each of them.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from corewarding.errors import EnvironmentProblem
from corewarding.extraction import Style, extract
from corewarding.grading import Grader, Verdict, answer_for, correct, decide, with_rule

__all__ = ["GraderPool", "serve"]

_log = logging.getLogger(__name__)

_CHUNK = 32  # pairs a request
_START_S = 120.0  # what importing sympy may take on a busy machine
_CACHE = 200_000  # verdicts kept; the oldest go first

_Pair = tuple[str, str]  # gold, answer


class GraderPool:
    """Grade pairs and responses in bounded worker processes; use it as a context manager.

    Args:
        workers: processes at most; none starts before algebra is needed.
        budget_s: seconds one comparison may take before its worker is killed and the verdict is
            None with reason ``timeout``.
        memory_mb: MiB of address space a comparison may add to an idle worker; beyond it the
            verdict is None with reason ``memory``, unless math-verify itself absorbs the failure
            (then the answer counts as unreadable or different).
    """

    def __init__(self, *, workers: int = 1, budget_s: float = 2.0, memory_mb: int = 1024) -> None:
        if workers < 1 or budget_s <= 0 or memory_mb < 1:
            raise ValueError(
                f"GraderPool needs workers >= 1, budget_s > 0 and memory_mb >= 1, got "
                f"{workers}, {budget_s}, {memory_mb}"
            )
        self._workers = [_Worker(budget_s, memory_mb) for _ in range(workers)]
        self._cache: dict[tuple[Grader, str, str], Verdict] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all workers; a later call starts them anew."""
        with self._lock:
            for worker in self._workers:
                worker.stop()

    def correct(
        self, pairs: Sequence[tuple[str, str | None]], *, grader: Grader = "math"
    ) -> list[Verdict]:
        """Compare (gold, answer) pairs, one verdict each; equal pairs are compared once.

        Raises:
            EnvironmentProblem: the workers cannot start.
        """
        verdicts: dict[tuple[str, str | None], Verdict] = {}
        open_pairs: list[_Pair] = []
        for pair in dict.fromkeys(pairs):
            gold, answer = pair
            quick = decide(gold=gold, answer=answer, grader=grader)
            if quick is not None:
                verdicts[pair] = replace(quick, extracted=answer)
            elif answer is not None:
                open_pairs.append((gold, answer))
        if open_pairs:
            with self._lock:
                found = self._algebra(open_pairs, grader)
            verdicts.update((pair, found[pair]) for pair in open_pairs)
        return [verdicts[pair] for pair in pairs]

    def grade(
        self,
        rows: Sequence[tuple[str, str]],
        *,
        style: Style = "boxed",
        grader: Grader = "math",
        stop: Sequence[str] = (),
    ) -> list[Verdict]:
        """Extract and compare (gold, response) rows, one verdict each, as `grading.grade` does."""
        extractions = [extract(response, style=style, stop=stop) for _, response in rows]
        pairs = [
            (gold, answer_for(gold=gold, extraction=extraction, style=style))
            for (gold, _), extraction in zip(rows, extractions, strict=True)
        ]
        return list(map(with_rule, self.correct(pairs, grader=grader), extractions))

    def classes(self, answers: Sequence[str]) -> list[str]:
        """Replace each of one question's answers by the first answer that means the same.

        Which answers share a class depends neither on their order nor on how often they occur;
        the class is named by its first member in `answers`.
        """
        return self.classes_of_items([answers])[0]

    def classes_of_items(self, items: Sequence[Sequence[str]]) -> list[list[str]]:
        """Do what `classes` does for many questions at once, keeping all workers busy."""
        partitions = [_Partition(answers) for answers in items]
        pending = partitions
        while pending := [partition for partition in pending if partition.candidate is not None]:
            asked = [partition.pairs() for partition in pending]
            verdicts = iter(self.correct([pair for pairs in asked for pair in pairs]))
            for partition, pairs in zip(pending, asked, strict=True):
                partition.settle([next(verdicts).correct is True for _ in pairs])
        return [partition.result() for partition in partitions]

    def _algebra(self, pairs: Sequence[_Pair], grader: Grader) -> dict[_Pair, Verdict]:
        unknown = [pair for pair in pairs if (grader, *pair) not in self._cache]
        chunks: queue.SimpleQueue[Sequence[_Pair]] = queue.SimpleQueue()
        size = max(1, min(_CHUNK, -(-len(unknown) // len(self._workers))))
        for start in range(0, len(unknown), size):
            chunks.put(unknown[start : start + size])
        busy = self._workers[: chunks.qsize()]
        found: dict[_Pair, Verdict] = {}
        if len(busy) == 1:
            _drain(busy[0], chunks, grader, found.__setitem__)
        elif busy:
            with ThreadPoolExecutor(len(busy)) as threads:
                for done in [
                    threads.submit(_drain, worker, chunks, grader, found.__setitem__)
                    for worker in busy
                ]:
                    done.result()
        for pair, verdict in found.items():
            self._cache[(grader, *pair)] = verdict
        known = {pair: self._cache[(grader, *pair)] for pair in pairs}
        while len(self._cache) > _CACHE:
            del self._cache[next(iter(self._cache))]
        return known


def _drain(
    worker: _Worker,
    chunks: queue.SimpleQueue[Sequence[_Pair]],
    grader: Grader,
    store: Callable[[_Pair, Verdict], None],
) -> None:
    while True:
        try:
            chunk = chunks.get_nowait()
        except queue.Empty:
            return
        for pair, verdict in zip(chunk, worker.grade(chunk, grader), strict=True):
            store(pair, verdict)


class _Partition:
    """The growing classes of one question's answers; candidates come in a fixed order."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = answers
        self._left = sorted(set(answers), key=lambda answer: (len(answer), answer), reverse=True)
        self._class_of: dict[str, str] = {}
        self._founders: list[str] = []
        self.candidate: str | None = None
        self._next()

    def pairs(self) -> list[tuple[str, str]]:
        """The candidate against the founder of every class, in the order `equivalent` uses."""
        assert self.candidate is not None
        candidate = self.candidate
        return [(min(f, candidate), max(f, candidate)) for f in self._founders]

    def settle(self, same: Sequence[bool]) -> None:
        """Put the candidate into the first class that it equals, or into one of its own."""
        assert self.candidate is not None
        founder = next(
            (f for f, equal in zip(self._founders, same, strict=True) if equal), self.candidate
        )
        if founder == self.candidate:
            self._founders.append(founder)
        self._class_of[self.candidate] = founder
        self._next()

    def result(self) -> list[str]:
        names: dict[str, str] = {}
        return [names.setdefault(self._class_of[answer], answer) for answer in self._answers]

    def _next(self) -> None:
        self.candidate = self._left.pop() if self._left else None


class _Worker:
    """One process that compares, seen from the parent; started on demand, killed when late."""

    def __init__(self, budget_s: float, memory_mb: int) -> None:
        self._budget_s = budget_s
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def grade(self, pairs: Sequence[_Pair], grader: Grader) -> Iterator[Verdict]:
        """Yield one verdict a pair; a pair that kills or outlives the process gets None."""
        done = 0
        while done < len(pairs):
            self._ask({"grader": grader, "pairs": pairs[done:]})
            while done < len(pairs):
                same, reason = self._reply(self._budget_s)
                answer = pairs[done][1]
                done += 1
                yield Verdict(same, reason, answer)
                if reason in _FATAL:
                    _log.warning("grader worker replaced (%s) at answer %.80r", reason, answer)
                    self.stop()
                    break

    def stop(self) -> None:
        """Kill the process, if there is one."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process, self._buffer = None, b""

    def _ask(self, request: dict[str, object]) -> None:
        line = json.dumps(request).encode() + b"\n"
        try:
            self._input().write(line)
        except BrokenPipeError:  # died while idle: nothing was lost
            self.stop()
            self._input().write(line)

    def _input(self) -> IO[bytes]:
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(self._budget_s), str(self._memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=_environment(),
        )
        _, reason = self._reply(_START_S)
        if reason != _READY:
            self.stop()
            raise EnvironmentProblem(
                f"grader worker did not start ({reason}); "
                f"to see why, run: {sys.executable} -c 'import math_verify'"
            )

    def _reply(self, limit_s: float) -> tuple[bool | None, str]:
        """Read one reply line; (None, ``timeout`` or ``crash``) if none comes."""
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None, "timeout"
                received = self._process.stdout.read(65536)
                if not received:
                    return None, "crash"
                self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        same, reason = json.loads(line)
        return same, reason


# --- the worker process --------------------------------------------------------------------------

_PROGRAM = "from corewarding.graderpool import serve; serve()"
_READY = "ready"
_STATUS = Path("/proc/self/status")
_FATAL = frozenset({"timeout", "crash", "memory"})


def serve() -> None:
    """Answer comparison requests on standard input until it closes: the worker's main function."""
    budget_s, memory_mb = float(sys.argv[1]), int(sys.argv[2])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # no library's print may mix with the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; its exit ends us
    try:
        correct(gold="x+1", answer="1+x")
        limit = _limit_memory(memory_mb)
    except (ImportError, OSError) as error:
        _write(replies, None, str(error))
        return
    _write(replies, None, _READY)
    for line in sys.stdin:
        request = json.loads(line)
        for gold, answer in request["pairs"]:
            # Should the parent be gone, the kernel ends a comparison that never returns.
            signal.setitimer(signal.ITIMER_REAL, 2 * budget_s + 5)
            same, reason = _compare(gold, answer, request["grader"])
            if not same and _peak() > limit - memory_mb * 2**17:
                same, reason = None, "memory"  # math-verify swallows most MemoryErrors
            _write(replies, same, reason)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _compare(gold: str, answer: str, grader: Grader) -> tuple[bool | None, str]:
    try:
        verdict = correct(gold=gold, answer=answer, grader=grader)
    except MemoryError:
        return None, "memory"
    except Exception as error:  # foreign code on arbitrary text: one pair must not end the batch
        return None, f"error: {type(error).__name__}"
    return verdict.correct, verdict.reason


def _write(replies: IO[str], same: bool | None, reason: str) -> None:
    replies.write(json.dumps([same, reason]) + "\n")
    replies.flush()


def _limit_memory(memory_mb: int) -> int:
    """Allow `memory_mb` MiB of address space beyond what the idle process holds; return the sum."""
    import resource

    limit = _peak() + memory_mb * 2**20
    if _STATUS.exists():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return limit


def _peak() -> int:
    """Most address space the process ever held, bytes; 0 where the kernel does not tell."""
    if not _STATUS.exists():
        return 0
    with _STATUS.open() as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmPeak"))


def _environment() -> dict[str, str]:
    package_root = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.get("PYTHONPATH")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(filter(None, (package_root, inherited)))
    return {**os.environ, **threads, "PYTHONPATH": path}
