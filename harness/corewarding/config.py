"""Every key that a comparison file may have, with its meaning under it.

One file is one comparison: arms × seeds × benchmarks. `corewarding.configfile` reads it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

__all__ = [
    "BASE_ARM",
    "KL",
    "Arm",
    "Comparison",
    "Data",
    "Eval",
    "Model",
    "Reward",
    "Rollout",
    "RunSpec",
    "Train",
]

BASE_ARM = "base"
"""Name of the row of the untrained model; every comparison has it."""

# Names become folders: no separators, no leading dot.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
Positive = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Model(_Section):
    path: str
    """Hub id, local folder, or ``embedded`` for the built-in tiny model (one base per seed)."""
    revision: str | None = None
    """Commit, tag or branch of a Hub model."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of the weights that are trained and sampled from."""
    device: str = "auto"
    """``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = "auto"
    """Attention implementation of transformers; ``auto`` leaves the choice to it."""
    trust_remote_code: bool = False
    """Run Python code that the model's repository ships. Off unless asked for."""


class Data(_Section):
    train: str | None = None
    """Training set: a name (``embedded``, ``gsm8k-train``) or a JSON Lines file; unset: nothing
    is trained."""
    revision: str | None = None
    """Commit, tag or branch of a Hub data set."""
    limit: Positive | None = None
    """Use the first so many questions only."""
    views: list[Name] = ["original"]
    """Wordings that every arm trains on, whether its method needs them or not."""
    tail: Literal["drop", "keep"] = "drop"
    """What happens to the last, smaller batch of an epoch."""
    extraction: Literal["reference", "boxed", "lenient", "number", "choice"] = "reference"
    """How a training answer is found in a completion (see docs/grading.md)."""
    equality: Literal["string", "math"] = "string"
    """When two answers are one vote: same string (the reference) or mathematically equal."""

    @field_validator("views")
    @classmethod
    def _has_a_view(cls, views: list[str]) -> list[str]:
        if not views or len(set(views)) != len(views):
            raise ValueError("give at least one view, each once")
        return views


class Rollout(_Section):
    n: Positive = 8
    """Completions a prompt that are trained on (G)."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Sampling temperature; log-probabilities of the loss are divided by it too."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Nucleus sampling; 1 is off."""
    max_new_tokens: Positive = 3072
    """A completion is cut here."""
    max_prompt_tokens: Positive = 512
    """Questions with a longer prompt, in any view, are left out and counted."""
    stop: list[str] = []
    """Strings that end a completion."""


class KL(_Section):
    coef: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the k3 term in the loss; 0 switches it off."""
    reference: Literal["auto", "initial", "teacher"] = "auto"
    """What the policy is held to; ``auto``: what the arm's method asks for."""


class Train(_Section):
    backend: Literal["local", "openrlhf"] = "local"
    """Engine: one process with transformers, or Ray + vLLM + DeepSpeed."""
    steps: Positive | None = None
    """Training steps (batches). Exactly one of `steps` and `epochs` is given."""
    epochs: Positive | None = None
    """Passes over the training set."""
    questions_per_step: Positive = 128
    """Questions of one batch; each gives one group per trained view."""
    minibatch: Positive | None = None
    """Questions per optimiser step; unset: the whole batch in one step, as the reference."""
    micro_batch: Positive = 8
    """Sequences per forward pass; changes memory and speed, not the result."""
    learning_rate: Annotated[float, Field(gt=0)] = 3e-6
    """Peak learning rate of AdamW."""
    warmup: Fraction = 0.1
    """Share of the steps that warm up linearly from 0."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """What follows the warm-up."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's moment decays."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """AdamW's weight decay."""
    grad_clip: Annotated[float, Field(gt=0)] = 1.0
    """Largest gradient norm."""
    clip: Annotated[float, Field(gt=0)] = 0.2
    """PPO clip range: ratio within 1 ± clip."""
    dual_clip: Annotated[float, Field(gt=1)] | None = 3.0
    """Bound on the loss of negative advantages, as a multiple of the advantage; null: none."""
    advantage: Literal["group-std", "group-mean"] = "group-std"
    """Divide by the group's standard deviation (GRPO) or only centre (Dr. GRPO)."""
    loss_mean: Literal["token", "sequence", "max-tokens"] = "token"
    """Average over all tokens (the reference), per sequence first (the paper's text), or divide
    by ``rollout.max_new_tokens`` (Dr. GRPO)."""
    truncated: Literal["keep", "mask"] = "keep"
    """Whether completions cut off by the token limit are trained on."""
    kl: KL = KL()
    gradient_checkpointing: bool = False
    """Recompute activations to save memory."""
    save_every: Positive = 50
    """Steps between checkpoints."""
    openrlhf: dict[str, Any] = {}
    """Verbatim options of the openrlhf engine; refused for the local one."""


class Eval(_Section):
    suite: list[Name]
    """Benchmarks or groups of them, by name (``corewarding plugins`` lists them)."""
    n: Positive = 8
    """Samples a question."""
    k: list[Positive] | None = None
    """The k of pass@k and maj@k; unset: 1, 2, 4, … up to n."""
    temperature: Annotated[float, Field(ge=0)] = 0.8
    """Sampling temperature; 0 is greedy."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Nucleus sampling; 1 is off."""
    max_new_tokens: Positive = 3072
    """A completion is cut here."""
    limit: Positive | None = None
    """Use the first so many questions of each benchmark."""
    grader: Literal["math", "math-verify", "string"] = "math"
    """What decides equality with the gold answer (see docs/grading.md)."""

    @field_validator("k")
    @classmethod
    def _sorted(cls, k: list[int] | None) -> list[int] | None:
        return sorted(set(k)) if k else None

    def ladder(self) -> list[int]:
        """The k to report: those given, else powers of two up to n."""
        return self.k or [2**i for i in range(self.n.bit_length()) if 2**i <= self.n]


class Reward(_Section):
    method: str
    """A reward method by name, or ``distribution:name`` where two packages claim the name."""
    weight: float = 1.0
    """Factor in the sum of an arm with several methods."""
    normalize: Literal["none", "group"] = "none"
    """Standardise within the group before weighting."""
    on_error: Literal["raise", "abstain"] = "raise"
    """What an exception inside the method does: end the run, or abstain and be counted."""
    options: dict[str, Any] = {}
    """The method's own settings."""


class Arm(_Section):
    rewards: list[Reward] = []
    """Methods whose weighted sum is the reward; none: the model is only evaluated."""
    overrides: dict[str, Any] = {}
    """Dotted keys that differ for this arm alone; the report lists them as confounds."""
    title: str | None = None
    """How tables and figures call the arm; unset: its key."""


class Comparison(_Section):
    """A whole comparison file."""

    name: Name
    """Folder name below ``runs/``."""
    title: str | None = None
    """Heading of the report."""
    model: Model
    data: Data = Data()
    prompt: Name = "boxed-chat"
    """Prompt template, by name (see docs/prompts.md)."""
    rollout: Rollout = Rollout()
    train: Train = Train()
    eval: Eval
    arms: dict[Name, Arm]
    """The contestants, in the order of the tables."""
    seeds: Annotated[list[int], Field(min_length=1)] = [0]
    """One run per arm and seed; seeds are the report's unit of repetition."""

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) != len(seeds) or min(seeds) < 0:
            raise ValueError("seeds must be distinct and not negative")
        return seeds


class RunSpec(_Section):
    """One run of a comparison: one arm with one seed, every override applied."""

    comparison: Name
    arm: Name
    seed: int
    rewards: list[Reward]
    model: Model
    data: Data
    prompt: Name
    rollout: Rollout
    train: Train
    eval: Eval
