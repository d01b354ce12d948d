from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corewarding.backends.loss import k3, row_weights, surrogate

VECTORS = json.loads((Path(__file__).parent / "data/paper_test_vectors.json").read_text())


@pytest.mark.parametrize("case", VECTORS["k3_token"])
def test_k3_equals_the_reference(case):
    logp = torch.zeros(1, 1, dtype=torch.float64)
    found = k3(logp, logp + case["ref_minus_policy_logprob"])
    assert float(found) == pytest.approx(case["k3"], abs=1e-6)


def test_k3_has_its_gradient_through_the_policy():
    logp = torch.tensor([[-1.0]], requires_grad=True)
    k3(logp, torch.tensor([[-0.5]])).sum().backward()
    # d/dlogp (e^d - d - 1) with d = 0.5.
    assert float(logp.grad) == pytest.approx(1 - float(torch.tensor(0.5).exp()), abs=1e-6)


def loss(ratio, advantage, dual_clip=3.0):
    logp = torch.tensor([[ratio]]).log()
    return float(
        surrogate(logp, torch.zeros(1, 1), torch.tensor([advantage]), clip=0.2, dual_clip=dual_clip)
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, -2.0),
        (1.5, 1.0, -1.2),  # clipped above
        (0.5, 1.0, -0.5),
        (0.5, -1.0, 0.8),  # clipped below
        (1.5, -1.0, 1.5),
        (9.0, -1.0, 3.0),  # dual clip
    ],
)
def test_the_clipped_loss_by_hand(ratio, advantage, expected):
    assert loss(ratio, advantage) == pytest.approx(expected, abs=1e-6)


def test_without_the_dual_clip_nothing_bounds_a_negative_advantage():
    assert loss(9.0, -1.0, dual_clip=None) == pytest.approx(9.0, abs=1e-5)


def test_the_three_means_by_hand():
    lengths = torch.tensor([10, 30, 20])
    sums = torch.tensor([10.0, 0.0, -20.0])  # per-token terms equal to advantages 1, 0, -1
    token = row_weights(lengths, mean="token", max_new_tokens=40)
    assert float((sums * token).sum()) == pytest.approx(-10 / 60)
    sequence = row_weights(lengths, mean="sequence", max_new_tokens=40)
    assert float((sums * sequence).sum()) == pytest.approx((1 + 0 - 1) / 3)
    limit = row_weights(lengths, mean="max-tokens", max_new_tokens=40)
    assert float((sums * limit).sum()) == pytest.approx(-10 / 3 / 40)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=20))
def test_every_mean_of_a_constant_is_that_constant_or_its_share_of_the_limit(values):
    lengths = torch.tensor(values)
    for mean in ("token", "sequence"):
        weights = row_weights(lengths, mean=mean, max_new_tokens=500)
        assert float((weights * lengths).sum()) == pytest.approx(1, rel=1e-5)
    weights = row_weights(lengths, mean="max-tokens", max_new_tokens=500)
    assert float((weights * lengths).sum()) == pytest.approx(
        sum(values) / len(values) / 500, rel=1e-5
    )
