"""Documentation is held to the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import corewarding
from corewarding import hookspecs
from corewarding.prompts import TEMPLATES

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def test_public_names_are_sorted_and_all_exist():
    names = corewarding.__all__
    assert names == sorted(
        names, key=lambda n: (not n.isupper(), n.startswith("_") or n[0].islower(), n)
    )
    for name in names:
        assert getattr(corewarding, name) is not None


def test_every_prompt_template_has_its_row():
    text = (ROOT / "docs/prompts.md").read_text()
    for name in TEMPLATES:
        assert f"| `{name}` |" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_linked_files_exist(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


def test_the_plugin_of_the_documentation_works():
    from corewarding.registry import Registry, Source
    from corewarding.testing import make_batch, make_item

    text = (ROOT / "docs/plugins.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    import types

    module = types.ModuleType("corewarding_brevity")
    exec(code, module.__dict__)
    registry = Registry()
    registry.add(module, Source("brevity", "corewarding-brevity", "0.1.0"))
    assert registry.broken == []
    method = registry.make("brevity", {"scale": 0.5})
    scores = method.score(make_batch([make_item("q", policy=["1", "22"])]))
    first, second = scores.rewards["q", "original"]
    assert first == second + 0.5


def test_the_comparison_of_the_readme_loads(tmp_path):
    from corewarding.configfile import load

    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert [len(arm.rewards) for arm in load(path).arms.values()] == [1, 1, 2]


def test_every_shipped_file_has_its_row():
    for folder in ("configs", "benchmarks"):
        text = (ROOT / folder / "README.md").read_text()
        for path in (ROOT / folder).glob("*.yaml"):
            assert f"`{path.name}`" in text or f"`{path.stem}`" in text, path


def test_every_hook_and_every_need_is_in_the_authors_page():
    from dataclasses import fields

    from corewarding import Needs

    text = (ROOT / "docs/plugins.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    for name in fields(Needs):
        assert f"`{name.name}=" in text, name.name
    for hook in ("register_reward_methods", "register_token_statistics"):
        assert hook in vars(hookspecs)
        assert hook in text


def test_nothing_in_the_repository_speaks_of_one_machine():
    pattern = re.compile(r"(/home/\w+|/root/|C:\\\\Users)")
    for path in [
        *DOCUMENTS,
        *(ROOT / "configs").glob("*.yaml"),
        *(ROOT / "benchmarks").glob("*.yaml"),
    ]:
        assert not pattern.search(path.read_text()), path
