"""A training engine as an lm-eval model: the same sampler in training and evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from corewarding.backends.base import Backend, Sample, Sampling
from corewarding.seeding import derive_seed

__all__ = ["BackendLM"]


class BackendLM(LM):  # type: ignore[misc]  # lm-eval ships no type information
    """Answers lm-eval's ``generate_until`` with a `Backend`, and remembers what text loses.

    lm-eval keeps the text of a completion only; its length and whether it was cut off are kept
    in `samples`, by (task, document index).
    """

    def __init__(self, backend: Backend, *, seed: int) -> None:
        super().__init__()
        self._backend = backend
        self._seed = seed
        self.samples: dict[tuple[str, int], list[Sample]] = {}

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Draw all repeats of each request in one call of the engine per sampling setting."""
        unique: dict[tuple[str, int], tuple[Instance, int]] = {}
        for request in requests:
            key = (request.task_name, request.doc_id)
            unique[key] = (request, unique.get(key, (request, 0))[1] + 1)
        by_settings = sorted(unique.items(), key=lambda entry: repr(_settings(*entry[1])))
        for settings, entries in groupby(by_settings, key=lambda entry: _settings(*entry[1])):
            self._draw(*settings, [(key, request) for key, (request, _) in entries])
        drawn = {key: iter(samples) for key, samples in self.samples.items()}
        return [next(drawn[(r.task_name, r.doc_id)]).text for r in requests]

    def _draw(
        self,
        task: str,
        sampling: Sampling,
        n: int,
        entries: Sequence[tuple[tuple[str, int], Instance]],
    ) -> None:
        groups = self._backend.rollout(
            [request.args[0] for _, request in entries],
            n,
            actor="policy",
            sampling=sampling,
            statistics=frozenset(),
            seed=derive_seed(self._seed, "eval", task),
        )
        self.samples |= {key: group for (key, _), group in zip(entries, groups, strict=True)}

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> Any:
        """Not offered: every benchmark of the suite generates text."""
        raise TypeError("this model generates text only; use lm-eval's own hf model here")

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> Any:
        """Not offered: every benchmark of the suite generates text."""
        raise TypeError("this model generates text only; use lm-eval's own hf model here")


def _settings(request: Instance, repeats: int) -> tuple[str, Sampling, int]:
    arguments = request.args[1]
    sampled = arguments.get("do_sample", arguments.get("temperature", 0) > 0)
    return (
        request.task_name,
        Sampling(
            temperature=float(arguments.get("temperature", 1.0)) if sampled else 0.0,
            top_p=float(arguments.get("top_p", 1.0)),
            max_new_tokens=int(arguments["max_gen_toks"]),
            stop=tuple(arguments.get("until") or ()),
        ),
        repeats,
    )
