"""Build the engine that a run asks for; the one place that knows all of them."""

from __future__ import annotations

import importlib.util

from corewarding.backends.base import Backend
from corewarding.config import RunSpec
from corewarding.errors import EnvironmentProblem
from corewarding.method import KLReference, Needs
from corewarding.registry import Registry

__all__ = ["kl_reference", "make_backend", "require_engine"]


def make_backend(
    spec: RunSpec, *, path: str, needs: Needs, registry: Registry, total_steps: int
) -> Backend:
    """Load the model at `path` into the engine ``train.backend``.

    Raises:
        EnvironmentProblem: the engine's package is not installed.
        UserError: the model cannot be loaded.
    """
    require_engine(spec)
    from corewarding.backends.local import LocalBackend

    return LocalBackend(
        model=spec.model,
        path=path,
        train=spec.train,
        rollout_temperature=spec.rollout.temperature,
        max_new_tokens=spec.rollout.max_new_tokens,
        total_steps=total_steps,
        teacher=bool(needs.teacher_views),
        kl_reference=kl_reference(spec, needs),
        statistics=registry.statistics,
    )


def require_engine(spec: RunSpec) -> None:
    """Check that the engine ``train.backend`` can be had here.

    Raises:
        EnvironmentProblem: its package is not installed, with the command that installs it.
    """
    if spec.train.backend == "local":
        return
    if importlib.util.find_spec("openrlhf") is None:
        raise EnvironmentProblem(
            "train.backend: openrlhf needs a package that is not installed; "
            "run: pip install 'corewarding[openrlhf]'"
        )
    raise EnvironmentProblem(
        "train.backend: openrlhf is not part of this version; use train.backend: local"
    )


def kl_reference(spec: RunSpec, needs: Needs) -> KLReference:
    """What the KL term holds the policy to: the setting, or what the methods ask for."""
    chosen = spec.train.kl.reference
    return needs.kl_reference if chosen == "auto" else chosen
