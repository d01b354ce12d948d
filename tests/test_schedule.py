from __future__ import annotations

import json
from pathlib import Path

import pytest

from corewarding.backends.schedule import learning_rate

VECTORS = json.loads((Path(__file__).parent / "data/paper_test_vectors.json").read_text())


@pytest.mark.parametrize("case", VECTORS["learning_rate"])
def test_the_rate_equals_the_reference(case):
    found = learning_rate(
        step=case["step_1_based"], total=case["K"], peak=3e-6, warmup=0.1, kind="cosine"
    )
    assert int(0.1 * case["K"]) == case["warmup"]
    assert found == pytest.approx(case["lr"], rel=1e-4, abs=1e-12)


def test_constant_is_constant_after_its_warm_up():
    rates = [
        learning_rate(step=k, total=10, peak=1.0, warmup=0.2, kind="constant") for k in range(1, 11)
    ]
    assert rates == [0.0, 0.5] + [1.0] * 8


def test_without_warm_up_the_first_step_is_at_the_peak():
    for kind in ("cosine", "constant"):
        assert learning_rate(step=1, total=5, peak=2.0, warmup=0.0, kind=kind) == 2.0
