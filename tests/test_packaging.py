"""The wheel holds all that a user needs, and works from an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command, **kwargs):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="hatchling builds the wheel: pip install --group test")
    out = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(out)]
    run(sys.executable, "-m", "pip", "wheel", *options, str(ROOT))
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel unpacked in front of everything else, as if there were no checkout."""
    target = tmp_path_factory.mktemp("site")
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--quiet",
        "--target",
        str(target),
        str(wheel),
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def corewarding(*arguments, cwd):
        return run(sys.executable, "-m", "corewarding", *arguments, env=environment, cwd=cwd)

    return target, corewarding


def test_the_wheel_holds_code_methods_and_data_and_no_tests(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "corewarding/py.typed",
        "corewarding_plugins/co_rewarding_ii.py",
        "corewarding/_data/benchmarks/gsm8k.yaml",
        "corewarding/_data/configs/quickstart.yaml",
        "corewarding/_data/reports/templates/report.html.j2",
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]
    shipped = {path.name for path in (ROOT / "benchmarks").glob("*.yaml")}
    assert shipped == {
        Path(n).name for n in names if n.startswith("corewarding/_data/benchmarks/")
    } - {"README.md"}


def test_the_installed_package_finds_its_data_from_an_empty_folder(installed, tmp_path):
    target, corewarding = installed
    listing = json.loads(corewarding("plugins", "--json", cwd=tmp_path))
    assert len(listing["methods"]) == 10
    plan = json.loads(corewarding("compare", "smoke", "--dry-run", "--json", cwd=tmp_path))
    assert [row["arm"] for row in plan["runs"]] == ["base", "ground-truth", "majority-vote"]
    assert list(tmp_path.iterdir()) == []
    assert (target / "corewarding").is_dir()


@pytest.mark.slow
def test_the_installed_package_runs_the_smoke_comparison(installed, tmp_path):
    _, corewarding = installed
    corewarding("compare", "configs/smoke.yaml", cwd=tmp_path)
    assert (tmp_path / "runs/smoke/report/report.html").exists()
