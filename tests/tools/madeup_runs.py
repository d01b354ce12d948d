"""Run folders made by hand, in exactly the documented format, for the tests of the report."""

from __future__ import annotations

import hashlib
import html.parser
import json

from corewarding import configfile
from corewarding.config import Comparison
from corewarding.report.curves import Curves
from corewarding.report.frame import read
from corewarding.report.scores import Scores
from corewarding.report.stats import Resampler
from corewarding.report.verdicts import judge

RIGHT, WRONG, UNSURE = "7", "8", "?"
NOTHING = None


class Folder:
    """Writes run folders in the format of docs/run-folder.md."""

    def __init__(self, root, *, arms, seeds=(0,), **changes):
        tree = {
            "name": "toy",
            "model": {"path": "tiny-model"},
            "data": {"train": "embedded"},
            "prompt": "plain",
            "train": {"steps": 20, "questions_per_step": 2},
            "eval": {"suite": ["quiz"], "n": 4},
            "arms": {name: {"rewards": [{"method": name}]} | extra for name, extra in arms.items()},
            "seeds": list(seeds),
        }
        self.root = root / "toy"
        self.comparison = Comparison.model_validate(tree | changes)
        self.root.mkdir(parents=True)
        (self.root / "comparison.yaml").write_text(configfile.dump(self.comparison))

    def run(self, arm, seed=0, **changes):
        folder = self.root / arm / f"seed-{seed}"
        folder.mkdir(parents=True)
        spec = configfile.resolve(self.comparison, arm=arm, seed=seed)
        (folder / "config.yaml").write_text(configfile.dump(spec))
        record = {
            "schema": 1,
            "identity": {"model": "m" * 64},
            "comparison": "toy",
            "arm": arm,
            "seed": seed,
            "status": "done",
            "error": None,
            "attempts": [{"started": "2026-01-01T00:00:00+00:00", "ended": None, "host": {}}],
            "git": {"commit": "c0ffee" * 6 + "c0ff", "dirty": False},
            "versions": {"python": "3.11.7", "torch": "2.13.0"},
            "model": {"path": "tiny-model", "sha256": "ab" * 32, "dtype": "float32"},
            "seconds": {"eval": 5.0, "grade": 1.0},
        }
        if spec.rewards:
            record |= {
                "steps_done": 20,
                "steps_total": 20,
                "methods": [
                    {
                        "name": spec.rewards[0].method,
                        "distribution": "corewarding",
                        "version": "0.1.0",
                        "weight": 1.0,
                        "normalize": "none",
                        "options_passed": {"extra": 3},
                        "options": {"extra": 3, "other": None},
                    }
                ],
                "data": {"train": "embedded", "sha256": "da" * 32, "questions": 40, "dropped": {}},
                "prompt": {"name": "plain", "sha256": "fe" * 32},
                "seconds": {"rollout": 30.0, "reward": 2.0, "update": 8.0, "eval": 5.0},
                "cpu_seconds": {"rollout": 20.0, "update": 8.0},
                "budget": {
                    "prompts": 40,
                    "student_rollouts": 320,
                    "vote_rollouts": 0,
                    "teacher_rollouts": 0,
                    "trained_tokens": 4000,
                    "generated_tokens": 4000,
                    "optimizer_steps": 20,
                },
            }
        (folder / "run.json").write_text(json.dumps(record | changes))
        return folder

    def metrics(self, arm, seed=0, *, steps=20, **curves):
        rows = [
            {"step": t + 1} | {name: curve(t / (steps - 1)) for name, curve in curves.items()}
            for t in range(steps)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.root / arm / f"seed-{seed}" / "metrics.jsonl").write_text(text)

    def evaluation(self, arm, answers, seed=0, benchmark="quiz", *, header=None, cut=(), meta=None):
        """`answers`: question → one answer a sample; `cut`: samples (doc, number) cut off."""
        folder = self.root / arm / f"seed-{seed}" / "eval" / "final" / benchmark
        folder.mkdir(parents=True)
        n = max(map(len, answers.values()))
        lines = [
            {
                "schema": 1,
                "benchmark": benchmark,
                "model": "m",
                "engine": "in-process",
                "n": n,
                "temperature": 0.8,
                "top_p": 1.0,
                "max_new_tokens": 48,
                "stop": [],
                "seed": seed,
                "prompt": "plain",
                "prompt_sha256": "fe" * 32,
                "questions": len(answers),
                "questions_sha256": "aa" * 32,
                "lm_eval_version": "0.4.13",
            }
            | (header or {})
        ]
        grades = []
        for doc, given in answers.items():
            for number, answer in enumerate(given):
                row = {"doc": doc, "sample": number, "prompt_sha256": "0" * 64}
                row |= {"question": "What?", "gold": RIGHT} if number == 0 else {}
                finished = (doc, number) not in cut
                lines.append(row | {"text": f"it is {answer}", "tokens": 10, "finished": finished})
                verdict = None if answer == UNSURE else answer == RIGHT
                grades.append(
                    {"doc": doc, "sample": number, "answer": answer, "class": answer}
                    | {"correct": verdict, "reason": "boxed"}
                )
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "samples.jsonl").write_text(text)
        (folder / "grades.jsonl").write_text("".join(json.dumps(g) + "\n" for g in grades))
        sha = hashlib.sha256(text.encode()).hexdigest()
        grader = {"grader": "math", "version": "0.9", "style": "boxed", "samples_sha256": sha}
        (folder / "grades.meta.json").write_text(json.dumps(grader | (meta or {})))
        return folder


def marks(*counts, n=4):
    """Answers of n samples a question, so many of them right."""
    return {f"q{i}": [RIGHT] * c + [WRONG] * (n - c) for i, c in enumerate(counts)}


def score(folder):
    frame = read(folder.root)
    return Scores(frame, Resampler(resamples=2000))


def sentences(folder):
    scores = score(folder)
    verdicts = judge(scores.frame, Curves(scores.frame), scores.headline())
    return {verdict.arm: verdict for verdict in verdicts}


def flat(level):
    return lambda x: level


def fall(start, end):
    return lambda x: start if x < 0.5 else end


class Outline(html.parser.HTMLParser):
    """Collects what a page would load, and the text of its scripts and tables."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.scripts, self.ids, self.tags, self._open = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "xlink:href"} and not value.startswith("#"):
                self.loads.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
