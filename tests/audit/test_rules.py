"""Each rule of the audit with a planted error that it finds, and the same table without it in which nothing is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.audit.checks import audit
from bench.audit.findings import ARITHMETIC, INFERENCE, Finding, causes
from bench.audit.sheets import from_text, read_all
from bench.audit.summary import findings_of, prose
from bench.audit.text_claims import claims
from bench.errors import InputError


def markdown(text):
    """Lines of cells, a header first; an empty line and a heading begin another table."""
    lines = []
    for part in text.strip().split("\n\n"):
        title, *rows = [line.strip() for line in part.splitlines()]
        lines += [f"## {title}", "", f"| {rows[0]} |", "|" + "---|" * rows[0].count("|") + "---|"]
        lines += [f"| {row} |" for row in rows[1:]] + [""]
    return "\n".join(lines)


def page(text, name="x.md"):
    return from_text(markdown(text), name)


GLUE = """GLUE
System | MNLI-m | MNLI-mm | MRPC (F1) | MRPC (acc) | RTE | AX | Avg
a | 84.6 | 83.4 | 88.9 | 84.8 | 66.4 | 35.1 | 79.1
b | 82.2 | 81.5 | 87.5 | 82.0 | 60.1 | 30.2 | 75.6
c | 86.1 | 85.7 | 89.3 | 85.4 | 70.1 | 39.2 | 81.1"""

SUM = """Data
Subset | Files | Tokens (M)
one | 120 | 30.25
two | 45 | 28.50
three | 9 | 197.75
Total | 174 | 256.50"""

ACROSS = """Results
Method | Base | Pruned | Δ Acc
first | 93.26 | 92.17 | -1.09
second | 93.59 | 93.36 | -0.23
third | 92.80 | 91.90 | -0.90
fourth | 93.53 | 93.77 | +0.24"""

SPEED = """Speed
System | ms | Speedup
teacher | 94.5 | 1.00x
six | 47.2 | 2.00x
four | 31.4 | 3.01x
two | 18.9 | 5.00x
one | 9.4 | 10.05x"""

RELATIVE = """Quantized
Task | Float | Int8 | Relative reduction (%)
MRPC | 90.00 | 89.56 | 0.49
QNLI | 90.30 | 89.12 | 1.31
RTE | 69.70 | 68.78 | 1.32
SQuAD | 88.46 | 87.74 | 0.81"""

COLUMNS = """First
Model | Retrieval score
oak | 50.15
elm | 51.98
ash | 54.90
fir | 55.98

Second
Model | Retrieval score
oak | 50.15
other | 45.12
elm | 51.98

Third
Model | Retrieval score
ash | 54.90
fir | 55.98
more | 44.10"""

RULES = [
    # table, what is planted, where, what is said, what follows
    (GLUE, "60.1 | 30.2 | 75.6", "60.1 | 30.2 | 77.6", ("b", "Avg", "77.6", "75.6", "average", ARITHMETIC)),
    (SUM, "174", "175", ("Total", "Files", "175", "174", "sum", ARITHMETIC)),
    (SUM, "256.50", "256.90", ("Total", "Tokens (M)", "256.90", "256.50", "sum", ARITHMETIC)),
    (ACROSS, "| -0.23", "| +0.23", ("second", "Δ Acc", "0.23", "-0.23", "sign", ARITHMETIC)),
    (SPEED, "3.01x", "3.51x", ("four", "speed-up", "3.51", "3.01", "compression", ARITHMETIC)),
    (RELATIVE, "1.32", "1.82", ("RTE", "Relative reduction (%)", "1.82", "1.32", "reduction", ARITHMETIC)),
    (
        COLUMNS,
        "ash | 54.90\nfir | 55.98\nmore",
        "ash | 54.91\nfir | 55.98\nmore",
        ("ash", "Retrieval score", "54.91", "54.90", "quoted differently", INFERENCE),
    ),
]


@pytest.mark.parametrize(("text", "old", "new", "finding"), RULES)
def test_a_rule_finds_its_planted_error_and_nothing_without_it(text, old, new, finding):
    assert audit(page(text)) == []
    assert text.count(old) == 1
    found = audit(page(text.replace(old, new)))
    said = {(f.row, f.column, f.printed, f.recomputed, f.check, f.basis) for f in found}
    row, column, *rest = finding
    assert any(one[0] == row and column in (None, one[1]) and list(one[2:]) == rest for one in said), said


def test_a_column_is_no_mismatched_mnli_because_its_name_has_two_m():
    rows = "a | 40.1 | 50.2 | 60.4 | 55.3\nb | 41.3 | 52.2 | 61.4 | 56.8\nc | 45.3 | 53.1 | 64.3 | 58.7\nd | 44.3 | 55.1 | 66.3 | 63.9"
    assert not any("MNLI" in f.why for f in audit(page(f"Scores\nSystem | MMLU | ARC | HellaSwag | Avg\n{rows}")))


def test_an_average_of_zero_is_no_divisor():
    cells = "Teacher | 80.0 | 90.0 | 0.0\nStudent | 71.3 | 82.7 | 0.0\n% of teacher | 89.1 | 91.9 | 90.5"
    assert not [f for f in audit(page(f"Kept\nSystem | RTE | SST-2 | Average\n{cells}")) if f.row == "% of teacher"]


TEXT = """
System | A | B | Avg
--- | --- | --- | ---
BigBERT | 80.0 | 70.0 | 75.0
TinyBERT | 70.0 | 65.0 | 67.5
MicroBERT | 71.0 | 66.0 | 68.5

"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("MicroBERT reaches 91% of BigBERT's performance.", "MicroBERT reaches 95% of BigBERT's performance.", "91.3"),
        ("MicroBERT reaches 95% of SomeBERT's performance.", None, ""),
    ],
)
def test_claims_are_compared_with_the_rows_that_they_name(right, wrong, said):
    sheets = from_text(TEXT, "x.md")
    assert list(claims(TEXT + right, "x.md", sheets)) == []
    if wrong:
        (finding,) = claims(TEXT + wrong, "x.md", sheets)
        assert (finding.check, finding.basis, finding.recomputed) == ("claim", INFERENCE, said)


FALSE = [
    # causes of what was false on public tables
    "Models\nModel | Layers | Hidden | Vocabulary(K)\nlarge | 24 | 1024 | 50\nlarge-mnli | 24 | 1024 | 50\nbase | 12 | 768 | 50",
    "One\nS | A (EM) | A (F1) | B (EM) | B (F1)\nx | 80.1 | 88.2 | 70.1 | 75.3\n\nTwo\nS | A (F1) | A (EM) | B (F1) | B (EM)\nx | 88.2 | 80.1 | 75.3 | 70.1",
    "One\nS | v1 | v2 | B/16 | B/32\nx | 80.11 | 88.20 | 17.59 | 4.41\n\nTwo\nS | v2 | v1 | B/32 | B/16\nx | 88.20 | 80.11 | 4.41 | 17.59",
    "Small\nModel | #Params | FLOPs | F\nshared wide | 9.4M | 1.9G | 51.7\nshared deep | 9.4M | 1.3G | 52.7\nbase | 44M | 1.8G | 50.1",
    "Rates\nModel | LR | Seq len | Warmup\nbase v1 | 2e-4 | 512 | 0.1\nbase v3 | 2e-4 | 512 | 0.1",
    "Means\nTask | a | b\none | 0.634921 | 0.531111\ntwo | 0.712345 | 0.498765\nthree | 0.558471 | 0.564945\nMean | 0.635246 | 0.531607",
    "Pages\nSystem | 精度 | 参数量 | 平均分\na | 81.2 | 110 | 81.2\nb | 79.3 | 66 | 79.3",
]


@pytest.mark.parametrize("text", FALSE)
def test_what_was_false_on_public_tables_is_not_said(text):
    assert audit(page(text)) == []


def made(seed):
    """A clean table with every derived thing that papers print."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(50, 95, (6, 5))
    printed = [[f"{v:.1f}" for v in row] for row in scores]
    lines = [
        "Results",
        "System | Params | Time (ms) | " + " | ".join(f"T{i}" for i in range(5)) + " | Average | Δ to first | Speedup",
    ]
    times = rng.uniform(10, 99, 6).round(1)
    means = scores.mean(axis=1)
    for place, row in enumerate(printed):
        best = [f"**{v}**" if scores[place, i] == scores[:, i].max() else v for i, v in enumerate(row)]
        lines.append(
            f"s{place} | {rng.integers(5, 99)}M | {times[place]} | {' | '.join(best)} | {means[place]:.1f} | {means[place] - means[0]:+.1f} | {times[0] / times[place]:.2f}x"
        )
    return "\n".join(lines)


@pytest.mark.slow
def test_a_hundred_clean_tables_of_all_derived_columns_have_no_findings():
    assert [f for seed in range(100) for f in audit(page(made(seed)))] == []


def test_arithmetic_is_first_and_one_cause_is_one_line(bench, tmp_path):
    lines = ["Cut\nSystem | A | B | C | Average"]
    rng = np.random.default_rng(5)
    for place in range(8):
        row = rng.uniform(50, 90, 3).round(2)
        lines.append(f"MiniLM{place} | {' | '.join(f'{v:.2f}' for v in row)} | {round(row.sum() * 100) // 3 / 100:.2f}")
    text = "\n".join(lines)
    guessed = "\n\nMiniLM1 keeps 55% of MiniLM0's performance.\n"
    (tmp_path / "x.md").write_text(markdown(text) + guessed)
    pages = read_all([tmp_path / "x.md"])
    found = findings_of(pages)
    assert {f.basis for f in found} == {ARITHMETIC, INFERENCE}
    assert [f.basis for f in found] == sorted((f.basis for f in found), key=lambda basis: basis != ARITHMETIC)
    truncated = [cause for cause in causes(found) if cause[0].check == "truncation"]
    assert len(truncated) == 1
    assert len(truncated[0]) >= 3
    answer = bench("audit", tmp_path / "x.md", "--only", "arithmetic", "--markdown", tmp_path / "said.md")
    assert answer.returncode == 1
    assert answer.stdout.count("is truncated") == 1
    assert "inference" not in answer.stdout
    said = (tmp_path / "said.md").read_text()
    assert "the table prints" in said
    assert "It should be" in said
    assert bench("audit", tmp_path / "x.md", "--only", "guess").returncode == 2
    judged = bench("audit", "--judge", tmp_path, "--json", tmp_path / "j.json")
    assert judged.returncode == 0
    assert "| truncation" in judged.stdout
    assert bench("audit").returncode == 2


def test_a_claim_is_said_by_the_text_and_a_cell_printed_by_the_table():
    cell = Finding(
        where="x.md",
        row="A",
        column="Avg",
        printed="75.7",
        recomputed="78.7",
        basis=ARITHMETIC,
        check="average",
        why="the mean",
        changes="a digit",
    )
    said = prose([cell, replace(cell, row="", column="", check="claim", printed="3x smaller")], "read 4 of 4")
    assert 'column "Avg": the table prints 75.7.' in said
    assert "x.md: the text says 3x smaller." in said


def test_a_text_without_findings_says_how_much_was_checked(tmp_path):
    (tmp_path / "x.md").write_text("| S | A | B |\n|---|---|---|\n| one | 81.2 | 70.1 |\n| two | 80.2 | 70.3 |\n")
    pages = read_all([tmp_path / "x.md"])
    assert prose(findings_of(pages), pages.reading) == (
        "I checked the arithmetic of the tables (read 4 of 4 numbers in 1 table). Nothing is wrong that the numbers show.\n"
    )
    with pytest.raises(InputError, match="arithmetic or inference"):
        findings_of(pages, "guess")


def test_two_rows_of_one_name_with_one_right_average_are_two_findings():
    table = (
        "Scores\nm | RTE | MRPC | SST-2 | Avg\nA | 60.0 | 80.0 | 90.0 | 76.7\nB | 61.0 | 80.0 | 90.0 | 77.0\n"
        "C | 62.0 | 80.0 | 90.0 | 77.3\nD | 63.0 | 80.0 | 90.0 | 77.7\n"
        "BERT | 62.0 | 82.0 | 92.0 | 75.7\nBERT | 63.0 | 81.0 | 92.0 | 75.1"
    )
    assert [(f.printed, f.recomputed) for f in audit(page(table))] == [("75.7", "78.7"), ("75.1", "78.7")]


@pytest.mark.parametrize("again", ["66.4 | - | 93.5 | 80.0", "70.0 | 88.9 | 93.5 | 84.1"])
def test_a_name_that_a_table_has_twice_is_not_taken_for_the_other_row(again):
    """100 x 76.7 / 82.9 is 92.5: the row of percents is right."""
    table = (
        "Scores\nm | RTE | MRPC | SST-2 | Avg\nBERT | 66.4 | 88.9 | 93.5 | 82.9\nTinyBERT | 60.0 | 80.0 | 90.0 | 76.7\n"
        f"TinyBERT percent of BERT | 90.4 | 90.0 | 96.3 | 92.5\nBERT | {again}"
    )
    assert not [found for found in audit(page(table)) if "percent" in found.row]


def test_an_empty_line_in_a_table_of_values_is_skipped(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("source,table,system,task,value\np,t,A,rte,70.1\n\np,t,A,mrpc,80.1\n\n")
    (sheet,) = read_all([file]).sheets
    assert [list(row.cells) for row in sheet.rows] == [["rte", "mrpc"]]
