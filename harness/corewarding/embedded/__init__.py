"""Try the harness with nothing to download: seeded word problems, a tokenizer, a tiny base model.

`problems` makes question pairs (original and rephrased) with known answers, `build_tokenizer` the
tokenizer for them, and `corewarding.embedded.base.base_model` trains and caches the model. Only the
first is re-exported here: the other two need transformers and torch, which are imported late.
"""

from __future__ import annotations

from corewarding.embedded.problems import Problem, Split, problems, supervised

__all__ = ["Problem", "Split", "problems", "supervised"]
