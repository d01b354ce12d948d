from __future__ import annotations

import json
import logging
import subprocess
import sys

import numpy as np
import pytest

from corewarding.errors import DataError, UserError
from corewarding.rundir import (
    RunDir,
    append_jsonl,
    read_json,
    read_jsonl,
    text_sha256,
    truncate_jsonl,
    write_atomic,
    write_json,
)


def test_a_torn_last_line_is_dropped_with_a_warning(tmp_path, caplog):
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"ste')
    with caplog.at_level(logging.WARNING):
        assert [row["step"] for row in read_jsonl(path)] == [1, 2]
    assert "torn last line" in caplog.text


def test_a_last_line_without_its_newline_counts_as_torn(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}')
    assert [row["step"] for row in read_jsonl(path)] == [1]


def test_a_broken_line_in_the_middle_names_its_number(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1}\nnonsense\n{"step": 3}\n')
    with pytest.raises(DataError, match=r"m.jsonl:2: not a JSON object"):
        list(read_jsonl(path))


def test_a_missing_or_binary_file_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        list(read_jsonl(tmp_path / "none.jsonl"))
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read"):
        list(read_jsonl(tmp_path / "b.jsonl"))
    (tmp_path / "c.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match="cannot be read"):
        list(read_jsonl(tmp_path / "c.jsonl.gz"))


def test_undefined_numbers_become_null_and_numpy_becomes_plain(tmp_path):
    path = tmp_path / "m.jsonl"
    with open(path, "w") as handle:
        append_jsonl(handle, {"a": float("nan"), "b": np.float32(0.5), "c": [np.inf, 1, "x"]})
    assert json.loads(path.read_text()) == {"a": None, "b": 0.5, "c": [None, 1, "x"]}


def test_odd_unicode_survives(tmp_path):
    path = tmp_path / "m.jsonl"
    text = "\u202eabc\x00\ud800 \u2028 end"
    with open(path, "w") as handle:
        append_jsonl(handle, {"text": text})
        append_jsonl(handle, {"text": "next"})
    assert [row["text"] for row in read_jsonl(path)] == [text, "next"]


def test_truncating_keeps_rows_up_to_a_step_and_drops_the_torn_tail(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"s')
    truncate_jsonl(path, key="step", last=2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_json_files_are_checked(tmp_path):
    write_json(tmp_path / "a" / "r.json", {"x": 1})
    assert read_json(tmp_path / "a" / "r.json") == {"x": 1}
    write_atomic(tmp_path / "bad.json", "[1]")
    with pytest.raises(DataError, match="expected a JSON object"):
        read_json(tmp_path / "bad.json")
    write_atomic(tmp_path / "bad.json", "{")
    with pytest.raises(DataError, match="not readable as JSON"):
        read_json(tmp_path / "bad.json")
    with pytest.raises(DataError, match="no such file"):
        read_json(tmp_path / "none.json")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    write_atomic(path, "old")

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"


def test_only_complete_checkpoints_count(tmp_path):
    run = RunDir(tmp_path)
    assert run.latest_checkpoint() is None
    for step in (10, 20, 30):
        run.checkpoint(step).mkdir(parents=True)
    (run.checkpoint(10) / "DONE").touch()
    (run.checkpoint(20) / "DONE").touch()
    assert run.latest_checkpoint() == (20, run.checkpoint(20))


def test_a_second_process_cannot_hold_the_same_run(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom corewarding.rundir import RunDir\n"
        "from corewarding.errors import UserError\n"
        "try:\n    with RunDir(Path(sys.argv[1])).locked(): print('held')\n"
        "except UserError: print('refused')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with RunDir(tmp_path).locked():
        assert "refused" in subprocess.run(command, capture_output=True, text=True).stdout
    assert "held" in subprocess.run(command, capture_output=True, text=True).stdout


def test_a_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), RunDir(tmp_path).locked():
        raise ZeroDivisionError
    with RunDir(tmp_path).locked():
        pass
    with RunDir(tmp_path).locked(), pytest.raises(UserError), RunDir(tmp_path).locked():
        pass


def test_hashes_do_not_collide_by_concatenation():
    assert text_sha256("ab", "c") != text_sha256("a", "bc")
    assert text_sha256("\ud800") != text_sha256("?")
