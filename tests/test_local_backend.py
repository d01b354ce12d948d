from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

from corewarding import config
from corewarding.backends.base import Sample, Sampling, TrainGroup
from corewarding.backends.local import LocalBackend
from corewarding.backends.scoring import Row, micro_batches, response_logprobs
from corewarding.errors import DataError, EnvironmentProblem
from corewarding.tokenstats import BUILTIN_STATISTICS

PROMPTS = ["2+2=", "a longer prompt: 3+4="]


@pytest.fixture
def make(tiny_model_folder):
    def make(*, teacher=False, kl_reference="initial", total=4, dtype="float32", **train):
        settings = {"steps": 4, "learning_rate": 1e-3, "warmup": 0.0, **train}
        return LocalBackend(
            model=config.Model(path=str(tiny_model_folder), dtype=dtype, device="cpu"),
            path=str(tiny_model_folder),
            train=config.Train.model_validate(settings),
            rollout_temperature=1.0,
            max_new_tokens=10,
            total_steps=total,
            teacher=teacher,
            kl_reference=kl_reference,
            statistics={s.name: s for s in BUILTIN_STATISTICS},
        )

    return make


def draw(backend, actor="policy", seed=0, n=4, **sampling):
    return backend.rollout(
        PROMPTS,
        n,
        actor=actor,
        sampling=Sampling(max_new_tokens=10, **sampling),
        statistics=frozenset({"entropy"}),
        seed=seed,
    )


def groups(backend, advantages=(1.0, -1.0, 0.5, -0.5), mask=(True,) * 4, seed=0):
    return [
        TrainGroup(prompt, tuple(samples), np.array(advantages, np.float32), np.array(mask, bool))
        for prompt, samples in zip(PROMPTS, draw(backend, seed=seed), strict=True)
    ]


def weights(backend, tmp_path):
    folder = tmp_path / f"w{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    backend.save(folder)
    return load_file(folder / "policy.safetensors")


def equal(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_rollouts_are_a_function_of_the_seed(make):
    backend = make(total=0)
    text = lambda seed: [[s.text for s in g] for g in draw(backend, seed=seed)]  # noqa: E731
    assert text(1) == text(1)
    assert text(1) != text(2)


def test_samples_have_text_without_special_tokens_and_one_statistic_a_token(make):
    for group in draw(make(total=0)):
        for sample in group:
            assert "<end>" not in sample.text
            assert sample.stats["entropy"].shape == sample.tokens.shape
            assert sample.finished == (sample.tokens[-1] == 1)


def test_a_stop_string_is_cut_off_and_counts_as_finished(make):
    backend = make(total=0)
    plain = [s.text for g in draw(backend, n=8) for s in g]
    letter = next(c for text in plain for c in text[3:-2])
    stopped = [s for g in draw(backend, n=8, stop=(letter,)) for s in g]
    assert all(letter not in s.text for s in stopped)
    for before, after in zip(plain, stopped, strict=True):
        assert after.text == before.partition(letter)[0]
        assert after.finished or letter not in before


def test_a_large_request_is_drawn_in_parts_with_the_same_result(make, monkeypatch):
    backend = make(total=0)
    whole = draw(backend)
    monkeypatch.setattr("corewarding.backends.sampler._CACHE_BYTES", 1)
    parts = draw(backend)
    assert [[s.text for s in g] for g in whole] == [[s.text for s in g] for g in parts]


def test_an_update_raises_the_probability_of_what_was_rewarded(make):
    backend = make()
    batch = groups(backend, advantages=(1.0, 0.0, 0.0, -1.0))
    rows = backend._rows(batch)

    def logp():
        with torch.no_grad():
            found, mask = backend._logprobs(backend._policy, rows)
        return (found * mask).sum(1)

    before = logp()
    metrics = backend.update(batch, step=1, seed=0)
    change = logp() - before
    assert change[0] > 0 > change[3]
    assert change[4] > 0 > change[7]
    assert metrics["optimizer_steps"] == 1
    assert metrics["learning_rate"] == 1e-3


@pytest.mark.parametrize("loss_mean", ["token", "sequence", "max-tokens"])
@pytest.mark.parametrize("coef", [0.0, 0.1])
def test_micro_batches_change_nothing(make, tmp_path, loss_mean, coef):
    results = []
    for size in (1, 3, 64):
        backend = make(micro_batch=size, loss_mean=loss_mean, kl={"coef": coef})
        metrics = backend.update(groups(backend), step=1, seed=0)
        results.append((metrics["loss"], metrics["grad_norm"]))
    np.testing.assert_allclose(results, [results[0]] * 3, rtol=1e-4, atol=1e-6)


def test_sharing_prompts_changes_nothing(make):
    backend = make()
    rows = backend._rows(groups(backend))
    common = {"pad": 0, "temperature": 0.8}
    shared, mask = response_logprobs(backend._policy, rows, shared=True, **common)
    plain, _ = response_logprobs(backend._policy, rows, shared=False, **common)
    torch.testing.assert_close(shared * mask, plain * mask, atol=1e-5, rtol=1e-5)
    gradients = []
    for logp in (shared, plain):
        (logp * mask).sum().backward()
        gradients.append([p.grad.clone() for p in backend._policy.parameters()])
        backend._policy.zero_grad()
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)


def test_a_prompt_of_one_token_can_be_shared(make):
    backend = make()
    rows = [Row(0, 0, (5,), (6, 7), 1.0, 1.0), Row(1, 0, (5,), (8,), 1.0, 1.0)]
    common = {"pad": 0, "temperature": 1.0}
    shared, mask = response_logprobs(backend._policy, rows, shared=True, **common)
    plain, _ = response_logprobs(backend._policy, rows, shared=False, **common)
    torch.testing.assert_close(shared * mask, plain * mask, atol=1e-5, rtol=1e-5)


def test_rows_without_a_gradient_are_skipped_but_count_in_the_denominator(make):
    backend = make()
    full = backend.update(groups(backend, (1.0, -1.0, 0.0, 0.0)), step=1, seed=0)
    assert full["rows_without_gradient"] == 0.5
    lengths = [len(s.tokens) for g in draw(make()) for s in g]
    assert full["trained_tokens"] == sum(lengths)


def test_rows_that_abstained_count_nowhere(make):
    one, other = make(), make()
    masked = one.update(groups(one, mask=(True, True, False, False)), step=1, seed=0)
    shorter = [
        TrainGroup(g.prompt, g.samples[:2], g.advantages[:2], g.mask[:2]) for g in groups(other)
    ]
    dropped = other.update(shorter, step=1, seed=0)
    assert masked["loss"] == pytest.approx(dropped["loss"], rel=1e-5)
    assert masked["trained_tokens"] == dropped["trained_tokens"]


def test_nothing_to_learn_is_no_step(make, tmp_path):
    backend = make()
    before = weights(backend, tmp_path)
    metrics = backend.update(groups(backend, (0.0,) * 4), step=1, seed=0)
    assert metrics["optimizer_steps"] == 0
    assert equal(before, weights(backend, tmp_path))


def test_empty_and_cut_off_samples_leave_the_loss_as_configured(make):
    cut = Sample("ab", np.array([5, 6]), finished=False)
    done = Sample("a", np.array([5, 1]), finished=True)
    empty = Sample("", np.array([], dtype=np.int64), finished=True)
    batch = [TrainGroup("2+2=", (cut, done, empty), np.ones(3, np.float32), np.ones(3, bool))]
    assert make().update(batch, step=1, seed=0)["trained_tokens"] == 4
    assert make(truncated="mask").update(batch, step=1, seed=0)["trained_tokens"] == 2


@pytest.mark.parametrize(("truncated", "expected"), [("keep", 10 / 60), ("mask", 10 / 30)])
def test_cut_off_samples_leave_the_denominator_too(make, truncated, expected):
    # Case C101. The loss of a token is minus its advantage while policy and sampler are one.
    samples = tuple(
        Sample("", np.full(length, 5), finished=finished)
        for length, finished in ((10, True), (30, False), (20, True))
    )
    batch = [TrainGroup("2+2=", samples, np.array([1, 0, -1], np.float32), np.ones(3, bool))]
    metrics = make(truncated=truncated).update(batch, step=1, seed=0)
    assert metrics["loss"] == pytest.approx(expected, abs=1e-6)


def test_padding_that_is_also_the_end_token_leaves_the_first_end_in_the_loss(make):
    # Case C102.
    rows = [Row(0, 0, (5,), (5, 6, 2), 1.0, 1.0), Row(1, 0, (5,), (5, 6, 7, 8, 2), 1.0, 1.0)]
    policy = make()._policy
    _, mask = response_logprobs(policy, rows, pad=2, temperature=1.0, shared=True)
    assert mask.int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]


def test_a_group_of_equal_rewards_still_feels_the_kl_term(make):
    # Case C90: as the reference does, a dead group keeps its KL term.
    backend = make(kl={"coef": 0.5})
    backend.update(groups(backend), step=1, seed=0)
    dead = backend.update(groups(backend, (0.0,) * 4, seed=1), step=2, seed=0)
    assert dead["rows_without_gradient"] == 0
    assert dead["optimizer_steps"] == 1
    assert dead["loss"] == pytest.approx(0.5 * dead["kl"], rel=1e-5)
    assert dead["grad_norm"] > 0


@pytest.mark.parametrize("checkpointing", [False, True])
def test_dropout_is_off_while_training(tiny_tokenizer, tmp_path, checkpointing):
    settings = GPT2Config(vocab_size=len(tiny_tokenizer), n_embd=32, n_layer=2, n_head=2)
    assert settings.resid_pdrop == settings.attn_pdrop == settings.embd_pdrop == 0.1
    GPT2LMHeadModel(settings).save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    batch = [
        TrainGroup(
            "2+2=",
            (Sample("", np.array([5, 6, 1]), True), Sample("", np.array([7, 1]), True)),
            np.array([1.0, -1.0], np.float32),
            np.ones(2, bool),
        )
    ]
    found = [
        LocalBackend(
            model=config.Model(path=str(tmp_path), device="cpu"),
            path=str(tmp_path),
            train=config.Train(steps=4, gradient_checkpointing=checkpointing),
            rollout_temperature=1.0,
            max_new_tokens=4,
            total_steps=4,
            teacher=False,
            kl_reference="initial",
            statistics={},
        ).update(batch, step=1, seed=0)
        for _ in range(2)
    ]
    assert found[0] == found[1]


def test_a_gradient_that_is_not_finite_skips_the_step(make, tmp_path):
    backend = make()
    before = weights(backend, tmp_path)
    metrics = backend.update(groups(backend, (float("inf"), 0.0, 0.0, 0.0)), step=1, seed=0)
    assert (metrics["skipped_steps"], metrics["optimizer_steps"]) == (1, 0)
    assert equal(before, weights(backend, tmp_path))


def test_kl_pulls_back_to_the_initial_model(make):
    backend = make(kl={"coef": 0.5})
    first = backend.update(groups(backend), step=1, seed=0)
    assert first["kl"] == pytest.approx(0, abs=1e-6)
    second = backend.update(groups(backend, seed=1), step=2, seed=0)
    assert second["kl"] > 1e-6


def test_kl_to_the_teacher_vanishes_after_a_full_blend(make):
    backend = make(teacher=True, kl_reference="teacher", kl={"coef": 0.5})
    backend.update(groups(backend), step=1, seed=0)
    apart = backend.update(groups(backend, seed=1), step=2, seed=0)["kl"]
    backend.blend(1.0)
    together = backend.update(groups(backend, seed=2), step=3, seed=0)["kl"]
    assert apart > 1e-6
    assert together == pytest.approx(0, abs=1e-6)


def test_the_teacher_moves_by_the_policys_weight(make, tmp_path):
    backend = make(teacher=True)
    start = {k: v.clone() for k, v in backend._teacher_master.items()}
    backend.update(groups(backend), step=1, seed=0)
    backend.blend(0.25)
    for name, moved in backend._teacher_master.items():
        expected = 0.75 * start[name] + 0.25 * backend._master[name].detach()
        torch.testing.assert_close(moved, expected, atol=1e-6, rtol=1e-5)


def test_small_moves_survive_in_bfloat16_training(make):
    backend = make(teacher=True, dtype="bfloat16")
    start = {k: v.clone() for k, v in backend._teacher_master.items()}
    assert all(v.dtype == torch.float32 for v in start.values())
    backend.update(groups(backend), step=1, seed=0)
    backend.blend(1e-5)
    moved = sum(int((start[k] != v).sum()) for k, v in backend._teacher_master.items())
    assert moved > 0.2 * sum(v.numel() for v in start.values())
    assert next(backend._policy.parameters()).dtype == torch.bfloat16


def test_teacher_rollouts_come_from_the_teacher(make):
    backend = make(teacher=True, learning_rate=0.05)
    text = lambda actor: [[s.text for s in g] for g in draw(backend, actor)]  # noqa: E731
    before = text("teacher")
    assert before == text("policy")
    backend.update(groups(backend), step=1, seed=0)
    assert text("teacher") == before
    assert text("policy") != before


def test_without_a_teacher_asking_for_one_is_an_error(make):
    backend = make()
    with pytest.raises(EnvironmentProblem, match="no teacher"):
        backend.blend(0.5)
    with pytest.raises(EnvironmentProblem, match="no teacher"):
        draw(backend, "teacher")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_four_steps_equal_two_and_two_after_a_restart_bit_for_bit(make, tmp_path, dtype):
    def train(backend, steps):
        for step in steps:
            backend.update(groups(backend, seed=step), step=step, seed=step)
            backend.blend(0.1)

    def final(backend, name):
        (tmp_path / name).mkdir()
        backend.save(tmp_path / name)
        return [
            load_file(tmp_path / name / f"{part}.safetensors") for part in ("policy", "teacher")
        ]

    arguments = {"teacher": True, "kl_reference": "teacher", "kl": {"coef": 0.1}, "dtype": dtype}
    whole = make(**arguments)
    train(whole, (1, 2, 3, 4))
    first = make(**arguments)
    train(first, (1, 2))
    (tmp_path / "half").mkdir()
    first.save(tmp_path / "half")
    second = make(**arguments)
    second.load(tmp_path / "half")
    train(second, (3, 4))
    for a, b in zip(final(whole, "a"), final(second, "b"), strict=True):
        assert equal(a, b)


def test_a_damaged_checkpoint_is_named(make, tmp_path):
    backend = make()
    backend.save(tmp_path)
    (tmp_path / "optimizer.safetensors").write_bytes(b"garbage")
    with pytest.raises(DataError, match="is damaged"):
        make().load(tmp_path)
    (tmp_path / "policy.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match="is damaged"):
        make().load(tmp_path)


def test_several_minibatches_make_several_steps_and_clip(make):
    backend = make(questions_per_step=2, minibatch=1, learning_rate=0.05)
    metrics = backend.update(groups(backend), step=1, seed=0)
    assert metrics["optimizer_steps"] == 2
    assert metrics["clip_fraction"] > 0


def test_the_exported_folder_is_an_ordinary_model(make, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    backend = make()
    backend.update(groups(backend), step=1, seed=0)
    backend.export(tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.decode(tokenizer("2+2", add_special_tokens=False)["input_ids"]) == "2+2"
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, dict(backend._policy.named_parameters())[name])


def test_gradient_checkpointing_gives_the_same_update(make):
    plain = make().update(groups(make()), step=1, seed=0)
    saving = make(gradient_checkpointing=True).update(groups(make()), step=1, seed=0)
    assert saving["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-4)


def test_description_tells_size_precision_and_device(make):
    described = make(total=0).describe()
    assert described["dtype"] == "float32"
    assert described["device"] == "cpu"
    assert described["parameters"] > 10_000


def test_micro_batches_keep_groups_together_longest_first():
    rows = [Row(i, i % 2, (1,) * (3 + i % 2), (1,), 1.0, 1.0) for i in range(4)]
    parts = micro_batches(rows, 2)
    assert [[row.group for row in part] for part in parts] == [[1, 1], [0, 0]]
