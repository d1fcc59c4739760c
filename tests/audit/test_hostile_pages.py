"""Pages that the long form of the fuzzer found: numbers without end, words without end, files that are not what they end with."""

from __future__ import annotations

import json

import hostile_input
import pytest

from bench.audit.grid import LONGEST_CELL, GridCell
from bench.audit.sheets import read_all
from bench.audit.summary import findings_of
from bench.errors import InputError

TABLE = """
| System | MNLI-(m/mm) | SST-2 |
|---|---|---|
| BERT-base | 84.6/83.4 | 93.5 |
| TinyBERT | 82.5/81.8 | 92.6 |
| PatientKD | 79.9/79.3 | 9e99 |
"""
LONG = "9" * 100_000


def findings(tmp_path, text: str, name: str = "page.md"):
    file = tmp_path / name
    file.write_text(text)
    found = []
    # hostile_input gives it five seconds
    assert not hostile_input.refuses(lambda: found.extend(findings_of(read_all([file]))), name)
    return found


@pytest.mark.parametrize(
    "claim",
    [
        f"TinyBERT is {LONG} points better than BERT-base on SST-2.",
        f"TinyBERT keeps {LONG} % of BERT-base's performance.",
        f"TinyBERT outperforms all systems on {LONG} of {LONG} tasks.",
        "TinyBERT keeps" + " " * 100_000 + "97 of BERT-base.",
        "TinyBERT is 2.3 points" + " -" * 50_000 + " above BERT-base on SST-2.",
        "x" * 100_000 + " is 9.4x faster than BERT-base",
        "PatientKD is 2 points better than TinyBERT on SST-2.",
    ],
    ids=["points", "share", "tasks", "blanks", "dashes", "word", "a score with an exponent"],
)
def test_a_claim_of_any_length_is_read_at_once(tmp_path, claim):
    findings(tmp_path, f"{claim}\n{TABLE}\n{claim}\n")


def test_a_claim_of_usual_length_is_still_checked(tmp_path):
    """What bounds the others must not hide this one."""
    found = findings(tmp_path, f"{TABLE}\nTinyBERT is 5.3 points better than PatientKD on MNLI-m.\n")
    assert [one.printed for one in found if one.check == "claim"] == ["5.3 points better"]


def test_a_long_name_of_a_column_is_read_at_once(tmp_path):
    findings(tmp_path, TABLE.replace("MNLI-(m/mm)", "x" * 200_000))
    assert len(GridCell("x" * 200_000).text) == LONGEST_CELL


def test_a_field_that_no_reader_takes_is_one_line(tmp_path):
    file = tmp_path / "grid.csv"
    file.write_text(f"System,SST-2\nBERT,{'9' * 200_000}\n")
    with pytest.raises(InputError, match="not comma-separated values"):
        read_all([file])


def test_a_cell_of_a_notebook_without_a_source(tmp_path):
    cells = [{"cell_type": "markdown"}, {"cell_type": "markdown", "source": [TABLE]}]
    findings(tmp_path, json.dumps({"cells": cells}), "run.ipynb")


def test_a_notebook_nested_without_end(tmp_path):
    file = tmp_path / "run.ipynb"
    file.write_text('{"cells": ' + "[" * 100_000)
    with pytest.raises(InputError, match="not a Jupyter notebook"):
        read_all([file])
