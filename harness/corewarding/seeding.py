"""Derive independent seeds by name, so that no random choice depends on what was drawn before."""

from __future__ import annotations

import hashlib

__all__ = ["derive_seed"]


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed in [0, 2⁶³) that is a pure function of `seed` and `purpose`."""
    text = "/".join([str(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
