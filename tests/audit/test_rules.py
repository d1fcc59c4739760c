"""The rules of the audit: planted errors are found, and nothing is said of tables that are right."""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from audit_containers import from_csv, from_text
from planted_errors import KINDS, Table

from bench.audit.checks import audit
from bench.audit.findings import ARITHMETIC, INFERENCE
from bench.audit.names import is_score
from bench.audit.sheets import read_all


def markdown(text):
    """Lines of cells, a title and a header first; an empty line begins another table."""
    lines = []
    for part in text.strip().split("\n\n"):
        title, *rows = part.splitlines()
        lines += [f"## {title}", "", f"| {rows[0]} |", "|" + "---|" * rows[0].count("|") + "---|"]
        lines += [f"| {row} |" for row in rows[1:]] + [""]
    return "\n".join(lines)


def page(text, name="x.md"):
    return from_text(markdown(text), name)


def as_tuples(sheets):
    return {(f.row, f.column, f.printed, f.recomputed, f.check, f.basis) for f in audit(sheets)}


@pytest.mark.slow
def test_correct_tables_rounded_as_papers_round_have_no_findings():
    """200 tables, averages and ratios from unrounded scores in every second one; at most two false findings."""
    tables = (Table(np.random.default_rng(seed), seed % 2 == 0).csv() for seed in range(200))
    assert sum(len(audit(from_csv(table))) for table in tables) <= 2


@pytest.mark.slow
def test_planted_errors_are_found():
    hits = Counter()
    for seed in range(210):
        table = Table(np.random.default_rng(10_000 + seed), seed % 2 == 0)
        kind = KINDS[seed % len(KINDS)]
        table.plant(kind)
        hits[kind] += bool(audit(from_csv(table.csv())))
    assert sum(hits.values()) >= 0.95 * 210
    assert min(hits.values()) >= 0.85 * 30, hits


def test_two_cells_that_changed_places_from_table_to_table_are_found():
    first = "One\nSystem | A | B | C | D | E\nOurs | 92.0 | 87.1 | 60.5 | 55.2 | 71.3\nKD | 80.1 | 82.4 | 59.9 | 50.0 | 70.2"
    second = first.replace("One", "Two").replace("92.0 | 87.1", "87.1 | 92.0")
    findings = as_tuples(page(f"{first}\n\n{second}"))
    assert {finding[:4] for finding in findings} == {
        ("Ours", "A", "87.1", "92.0"),
        ("Ours", "B", "92.0", "87.1"),
    }
    assert not as_tuples(page(f"{first}\n\n{second.replace('87.1 | 92.0', '87.1 | 92.1')}"))


@pytest.mark.parametrize("seed", range(20))
def test_a_multiple_of_one_row_that_its_column_does_not_give_is_found(seed):
    """Speed-ups from times, compression from sizes and a share that is kept; right as they are, then one of them changed by a tenth."""
    rng = np.random.default_rng(seed)
    times, sizes, scores = (
        rng.uniform(5, 100, 6).round(1),
        rng.uniform(10, 400, 6).round(),
        rng.uniform(40, 90, 6).round(1),
    )
    columns = [times[0] / times, sizes[0] / sizes, 100 * scores / scores[0]]
    planted = rng.integers(3), rng.integers(1, 6)
    names = ("Speed-up", "Compression", "Retained (%)")

    def lines():
        yield f"System | ms | MB | Score | {' | '.join(names)}"
        for row, (speed, smaller, kept) in enumerate(zip(*columns, strict=True)):
            yield f"S{row} | {times[row]} | {sizes[row]:.0f} | {scores[row]} | {speed:.2f}x | {smaller:.2f}x | {kept:.1f}"

    assert not as_tuples(page("Results\n" + "\n".join(lines())))
    right = f"{columns[planted[0]][planted[1]]:.{2 - planted[0] // 2}f}"
    columns[planted[0]][planted[1]] *= 1.1
    (finding,) = audit(page("Results\n" + "\n".join(lines())))
    assert (finding.row, finding.check, finding.basis) == (f"S{planted[1]}", "relative", ARITHMETIC)
    assert finding.column.lower() == names[planted[0]].lower()
    assert float(finding.recomputed) == pytest.approx(float(right), rel=0.01)


def with_derived_columns(seed):
    """A right table with every derived column that papers print."""
    rng = np.random.default_rng(seed)
    scores, times = rng.uniform(50, 95, (6, 5)), rng.uniform(10, 99, 6).round(1)
    means = scores.mean(axis=1)
    lines = [
        "Results",
        "System | Params | Time (ms) | T0 | T1 | T2 | T3 | T4 | Average | Δ to first | Speedup",
    ]
    for place, row in enumerate(scores):
        cells = [
            f"s{place}",
            f"{rng.integers(5, 99)}M",
            f"{times[place]}",
            *(f"{v:.1f}" for v in row),
        ]
        cells += [
            f"{means[place]:.1f}",
            f"{means[place] - means[0]:+.1f}",
            f"{times[0] / times[place]:.2f}x",
        ]
        lines.append(" | ".join(cells))
    return "\n".join(lines)


@pytest.mark.slow
def test_a_hundred_right_tables_of_all_derived_columns_have_no_findings():
    assert [f for seed in range(100) for f in audit(page(with_derived_columns(seed)))] == []


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

PRUNED = """Results
Method | Base | Pruned | Δ Acc
first | 93.26 | 92.17 | -1.09
second | 93.59 | 93.36 | -0.23
third | 92.80 | 91.90 | -0.90
fourth | 93.53 | 93.77 | +0.24"""

QUOTED = """First
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

PLANTED = [
    (GLUE, "| 75.6", "| 77.6", ("b", "Avg", "77.6", "75.6", "average", ARITHMETIC)),
    (SUM, "174", "175", ("Total", "Files", "175", "174", "sum", ARITHMETIC)),
    (SUM, "256.50", "256.90", ("Total", "Tokens (M)", "256.90", "256.50", "sum", ARITHMETIC)),
    (PRUNED, "| -0.23", "| +0.23", ("second", "Δ Acc", "+0.23", "-0.23", "sign", ARITHMETIC)),
    (QUOTED, "54.90\nfir | 55.98\nmore", "54.91\nfir | 55.98\nmore",
     ("ash", "Retrieval score", "54.91", "54.90", "quoted differently", INFERENCE)),
]  # fmt: skip


@pytest.mark.parametrize(("table", "old", "new", "finding"), PLANTED)
def test_a_rule_finds_its_planted_error_and_nothing_without_it(table, old, new, finding):
    assert audit(page(table)) == []
    assert table.count(old) == 1
    assert finding in as_tuples(page(table.replace(old, new)))


RIGHT = {
    "two MNLI columns as one": "S\nSystem | MNLI-m | MNLI-mm | RTE | Score\na | 84.0 | 83.0 | 66.0 | 74.8\nb | 80.0 | 79.0 | 60.0 | 69.8\nc | 70.0 | 71.0 | 50.0 | 60.3",
    "shapes": "S\nModel | Layers | Hidden | Vocabulary(K)\nlarge | 24 | 1024 | 50\nlarge-mnli | 24 | 1024 | 50\nbase | 12 | 768 | 50",
    "exchanged metrics": "One\nS | A (EM) | A (F1) | B (EM) | B (F1)\nx | 80.1 | 88.2 | 70.1 | 75.3\n\nTwo\nS | A (F1) | A (EM) | B (F1) | B (EM)\nx | 88.2 | 80.1 | 75.3 | 70.1",
    "versions": "One\nS | v1 | v2 | B/16 | B/32\nx | 80.11 | 88.20 | 17.59 | 4.41\n\nTwo\nS | v2 | v1 | B/32 | B/16\nx | 88.20 | 80.11 | 4.41 | 17.59",
    "settings": "Rates\nModel | LR | Seq len | Warmup\nbase v1 | 2e-4 | 512 | 0.1\nbase v3 | 2e-4 | 512 | 0.1",
    "six digits": "Means\nTask | a | b\none | 0.634921 | 0.531111\ntwo | 0.712345 | 0.498765\nthree | 0.558471 | 0.564945\nMean | 0.635246 | 0.531607",
    "another language": "Pages\nSystem | 精度 | 参数量 | 平均分\na | 81.2 | 110 | 81.2\nb | 79.3 | 66 | 79.3",
    "an average of zero": "Kept\nSystem | RTE | SST-2 | Average\nTeacher | 80.0 | 90.0 | 0.0\nStudent | 71.3 | 82.7 | 0.0\n% of teacher | 89.1 | 91.9 | 90.5",
    "a total of other parts": "Data\nSubset | Files\none | 120\ntwo | 45\nTotal | 300",
    "the best baseline of each column": "S\nm | RTE | MRPC | QQP | SST-2 | CoLA | STS-B\nDistilBERT | 60.1 | 86.4 | 88.0 | 91.0 | 45.2 | 85.3\nTinyBERT | 63.3 | 87.2 | 88.5 | 92.1 | 44.0 | 86.1\nOurs | 66.6 | 88.1 | 89.1 | 93.4 | 47.9 | 87.5\nΔ over best | 3.3 | 0.9 | 0.6 | 1.3 | 2.7 | 1.4",
    "relative changes": "S\nm | RTE | MRPC | QQP | SST-2 | CoLA | STS-B\nTeacher | 84.5 | 90.0 | 91.0 | 93.5 | 60.0 | 89.0\nStudent | 82.0 | 88.0 | 90.0 | 91.5 | 52.0 | 87.0\nΔ | -3.0 | -2.2 | -1.1 | -2.1 | -13.3 | -2.2",
    "a difference of two rows of one name": "S\nm | MNLI | QQP | SST-2 | RTE\nBERT | 84.3 | 71.2 | 93.1 | 66.4\nBERT | 80.1 | 66.0 | 91.2 | 60.3\nDifference | 4.2 | 5.2 | 1.9 | 6.1",
    # 100 x 76.7 / 82.9 is 92.5, of the first BERT
    "a name that is there twice": "S\nm | RTE | MRPC | SST-2 | Avg\nBERT | 66.4 | 88.9 | 93.5 | 82.9\nTinyBERT | 60.0 | 80.0 | 90.0 | 76.7\nTinyBERT percent of BERT | 90.4 | 90.0 | 96.3 | 92.5\nBERT | 70.0 | 88.9 | 93.5 | 84.1",
}


@pytest.mark.parametrize("table", RIGHT.values(), ids=RIGHT)
def test_nothing_is_said_of_what_is_right(table):
    assert audit(page(table)) == []


def test_a_column_is_no_mismatched_mnli_because_its_name_has_two_m():
    rows = "a | 40.1 | 50.2 | 60.4 | 55.3\nb | 41.3 | 52.2 | 61.4 | 56.8\nc | 45.3 | 53.1 | 64.3 | 58.7\nd | 44.3 | 55.1 | 66.3 | 63.9"
    assert not any(
        "MNLI" in f.why
        for f in audit(page(f"Scores\nSystem | MMLU | ARC | HellaSwag | Avg\n{rows}"))
    )


TEACHER = ["91.1", "84.4", "88.9", "88.8", "54.8", "93.4", "83.9", "87.5", "71.1", "67.0"]
STUDENT = ["89.6", "80.3", "88.7", "86.6", "62.8", "92.6", "82.5", "86.4", "71.3", "61.2"]
TASKS = "ABCDEFGHIJ"


def kept(rule, unit="0.1", **instead):
    """A teacher, a student and the percentage kept, made from the printed scores by this rounding."""
    ratios = [
        (100 * Decimal(b) / Decimal(a)).quantize(Decimal(unit), rule)
        for a, b in zip(TEACHER, STUDENT, strict=True)
    ]
    row = [instead.get(task, str(ratio)) for task, ratio in zip(TASKS, ratios, strict=True)]
    rows = ["System", *TASKS], ["teacher", *TEACHER], ["student", *STUDENT], ["percent kept", *row]
    return audit(page("\n".join(["Kept", *(" | ".join(row) for row in rows)])))


def test_a_row_that_cuts_its_ratios_off_shows_it_and_a_rounded_one_has_no_findings():
    assert kept(ROUND_HALF_UP) == []
    cut = kept(ROUND_DOWN)
    assert {(f.column, f.printed, f.recomputed) for f in cut} >= {
        ("A", "98.3", "98.4"),
        ("E", "114.5", "114.6"),
    }
    assert {(f.check, f.basis) for f in cut} == {("truncation", ARITHMETIC)}


def test_one_ratio_may_not_leave_the_rule_that_all_others_follow_to_the_digit():
    (finding,) = kept(ROUND_HALF_UP, "0.01", D="97.55")
    assert (finding.column, finding.recomputed, finding.check) == ("D", "97.52", "ratio")
    # two such cells, or digits too few to tell: the row may as well be made from unrounded scores
    assert kept(ROUND_HALF_UP, "0.01", D="97.55", G="98.35") == []
    assert kept(ROUND_HALF_UP, D="97.6") == []


@pytest.mark.parametrize(
    ("printed", "changes"),
    [("74.0", "a ranking: 2 becomes 1"), ("79.0", "a headline"), ("76.5", "a headline")],
)
def test_a_wrong_average_says_which_ranking_it_changes(printed, changes):
    rows = f"one | 80.1 | 70.2 | 75.2\ntwo | 81.0 | 71.0 | {printed}\nthree | 5.0 | 5.0 | 5.0"
    (finding,) = audit(page(f"S\nm | A | B | Avg\n{rows}"))
    assert (finding.row, finding.recomputed, finding.changes) == ("two", "76.0", changes)


def test_two_rows_of_one_name_with_one_right_average_are_two_findings():
    rows = "A | 60.0 | 80.0 | 90.0 | 76.7\nB | 61.0 | 80.0 | 90.0 | 77.0\nC | 62.0 | 80.0 | 90.0 | 77.3\nD | 63.0 | 80.0 | 90.0 | 77.7"
    wrong = "BERT | 62.0 | 82.0 | 92.0 | 75.7\nBERT | 63.0 | 81.0 | 92.0 | 75.1"
    findings = audit(page(f"Scores\nm | RTE | MRPC | SST-2 | Avg\n{rows}\n{wrong}"))
    assert [(f.printed, f.recomputed) for f in findings] == [("75.7", "78.7"), ("75.1", "78.7")]


@pytest.mark.parametrize(
    ("first", "second", "are_compared"),
    [
        ("glue-4000-rows.csv", "glue-20000-rows.csv", False),
        ("glue-4,000-rows.csv", "glue-4000-rows.md", True),
        ("glue.csv", "glue-4000-rows.csv", False),
        ("readme-cd21f57 examples.md", "paper.md", True),
    ],
)
def test_a_number_quoted_differently_unless_the_tables_are_of_other_numbers_of_rows(
    first, second, are_compared
):
    table = "T\nS | A | B | C | D\nBERT | 93.4 | 83.9 | 87.5 | {}"
    findings = audit([*page(table.format("67.0"), first), *page(table.format("67.1"), second)])
    quoted = [(f"{second}: T", "67.1", "67.0", "quoted differently")]
    assert [(f.where, f.printed, f.recomputed, f.check) for f in findings] == (
        quoted if are_compared else []
    )


SCORES = "cola (Matthews)|mrpc (F1) mean|SST-2|MNLI (m)|MNLI (M)|QNLI (EM)|SQuAD v1.1|after 25 %|BERT's|Samsum|F1 ± sd"
OTHERS = "MACs (G)|embedding (M)|student time (s)|examples|training runs|#Layers|Hidden size|n|mrpc (F1) sd|latency|Params|peak MB"


@pytest.mark.parametrize("columns", [SCORES, OTHERS])
def test_columns_of_scores_are_told_by_their_names(columns):
    assert {column: is_score(column) for column in columns.split("|")} == dict.fromkeys(
        columns.split("|"), columns is SCORES
    )


def test_a_number_outside_its_own_interval_is_found_and_a_citation_is_none():
    table = "One\nSystem | A | B\nOurs | +1.6 [-7.5, 9.7] | 84.3 [12, 13]\nKD | -36.4 [-31.5, -21.5] | 81.0 [80.2, 81.9]"
    assert {finding[:2] for finding in as_tuples(page(table))} == {("KD", "A")}


def test_a_row_that_says_how_sure_the_others_are_has_no_average():
    rows = "Ours | +1.6 | +0.2 | +0.9\nKD | -26.4 | -1.8 | -14.1\nPKD | +2.0 | +1.0 | +1.5"
    table = f"Differences\nSystem | A | B | mean of 2\n{rows}\nmin. detectable | 8.6 | 3.1 | 4.8"
    assert not as_tuples(page(table))
    assert len(as_tuples(page(table.replace("-14.1", "-19.1")))) == 1


def test_a_difference_to_one_row_follows_the_column_of_means():
    rows = [
        ("teacher", 70.7, "–"),
        ("a", 70.9, "+3.1 (+1.4 to +4.7) better"),
        ("b", 70.8, "+3.0 (+1.4 to +4.6) better"),
    ]
    rows += [
        ("base", 67.8, "–"),
        ("c", 68.6, "+0.9 (-0.7 to +2.3) not significant"),
        ("d", 56.5, "-11.3 (-19.1 to -3.3) worse"),
    ]
    head = "| System | Mean | Difference to base; verdict |\n|---|---|---|\n"
    text = head + "".join(
        f"| {name} | {mean} | {difference} |\n" for name, mean, difference in rows
    )
    assert not audit(from_text(text, "x.md"))  # +0.9 is rounded from unrounded scores
    (finding,) = audit(from_text(text.replace("+3.0 (+1.4", "+4.0 (+1.4"), "x.md"))
    assert (finding.row, finding.recomputed, finding.why) == (
        "b",
        "3.0",
        "its own Mean - that of base",
    )
    (finding,) = audit(from_text(text.replace("70.9 | +3.1 (+1.4", "70.9 | +3.1 (+3.4"), "x.md"))
    assert "outside its own interval" in finding.why


def test_a_row_of_averages_says_nothing_of_counts_and_all_of_scores():
    rows = [
        ("a", 61.0, 70.0, 65.5, 408, 12.5),
        ("b", 63.0, 74.0, 68.5, 1500, 27.5),
        ("Average", 62.0, 72.0, 67.0, 1908, 20.0),
    ]
    head = (
        "| System | rte | sst2 | Overall | examples | latency (ms) |\n|---|---|---|---|---|---|\n"
    )
    text = head + "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows)
    assert not audit(from_text(text, "x.md"))
    for right, wrong in (("72.0 | 67.0", "72.0 | 77.0"), ("1908 | 20.0", "1908 | 25.0")):
        assert [
            finding.row for finding in audit(from_text(text.replace(right, wrong), "x.md"))
        ] == ["Average"]


def test_an_interval_is_read_with_a_decimal_comma_and_a_change_is_none():
    """``5.0 (70.0 to 75.0)`` is a gain from the first to the second."""
    head = "| System | rte |\n|---|---|\n"
    (sheet,) = from_text(
        f"{head}| a | 84,3 (83,1 to 85,2) |\n| b | 82,0 (81,0 to 83,0) |\n", "x.md"
    )
    assert [float(row.cells["rte"].value) for row in sheet.rows] == [84.3, 82.0]
    assert not audit(
        from_text(f"{head}| a | 5.0 (70.0 to 75.0) |\n| b | 1.5 (70.0 to 71.5) |\n", "x.md")
    )
    assert (
        len(
            audit(
                from_text(
                    f"{head}| a | 84.3 (83.1 to 84.2) |\n| b | 82.0 (81.0 to 83.0) |\n", "x.md"
                )
            )
        )
        == 1
    )


def test_of_a_reports_csv_scores_are_read_and_of_another_file_all_columns(tmp_path):
    header = "System,rte mean,rte sd,rte n,mean of 2,mean of 2 low,mean of 2 high"
    own, other = tmp_path / "accuracy.csv", tmp_path / "other.csv"
    own.write_text(f"{header}\nkd,61.0,1.2,3,70.0,68.0,72.0\npkd,62.0,1.0,3,71.0,69.0,73.0\n")
    other.write_text("System,BLEU,BLEU low,Avg\nA,20.0,10.0,15.0\nB,22.0,12.0,17.0\n")
    assert [sheet.columns for sheet in read_all([own, other]).sheets] == [
        ["rte", "mean of 2"],
        ["BLEU", "BLEU low", "Avg"],
    ]
