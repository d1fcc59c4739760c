"""The audit's reader: one table in every container, what cells hold, how much was read."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from audit_containers import CONTAINERS, latex, spanned

from bench.audit.checks import audit
from bench.audit.printed import numbers_of
from bench.audit.sheets import from_text, pages_of, read_all
from bench.audit.summary import audit_each

WILD = Path(__file__).resolve().parents[3] / "shared" / "tables-in-the-wild"


def numbers(sheets):
    return sorted(cell.text for sheet in sheets for row in sheet.rows for cell in row.cells.values())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", CONTAINERS)
def test_every_number_of_every_container_is_read_below_its_name(tmp_path, name, seed):
    table = spanned(seed)
    (tmp_path / name).write_text(CONTAINERS[name](table))
    sheets = read_all([tmp_path / name]).sheets
    assert len(sheets) == 1
    assert numbers(sheets) == table.numbers
    for row, values, family, system in zip(sheets[0].rows, table.values, table.families, table.systems, strict=True):
        assert [cell.text for cell in row.cells.values()] == values
        assert row.system in (system, f"{family}, {system}")
    assert [column.split()[-1] for column in sheets[0].columns] == [task for _, task in table.tasks]
    assert all(column.startswith(b) for column, (b, _) in zip(sheets[0].columns, table.tasks, strict=True))


@pytest.mark.parametrize(
    "name", [name for name in CONTAINERS if name not in ("aligned.txt", "simple.rst", "listed.rst")]
)
def test_the_plain_pass_counts_what_the_reader_reads(tmp_path, name):
    table = spanned(3)
    (tmp_path / name).write_text(CONTAINERS[name](table))
    pages = read_all([tmp_path / name])
    assert pages.unread == []
    assert pages.reading == f"read {len(table.numbers)} of {len(table.numbers)} numbers in 1 table"


def test_a_judged_file_without_a_table_counts_its_numbers_as_unread(tmp_path):
    (tmp_path / "a.md").write_text("| a | 1.0 | 2.0 | 3.0 | 4.0 |\n")
    (tmp_path / "b.md").write_text("| S | A | B |\n|---|---|---|\n| one | 1.5 | 2.5 |\n| two | 3.5 | 4.5 |\n")
    text, body = audit_each(tmp_path)
    assert body["formats"]["md"] | {"files": 2, "tables": 2, "numbers": 8, "read": 4} == body["formats"]["md"]
    assert "50.0 %" in text


def test_a_file_of_a_folder_that_cannot_be_read_is_named_and_the_others_are_audited(tmp_path):
    (tmp_path / "good.md").write_text("| S | A | B |\n|---|---|---|\n| one | 1.5 | 2.5 |\n| two | 3.5 | 4.5 |\n")
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe")
    (tmp_path / "bad.ipynb").write_text("no notebook")
    (tmp_path / "folder.md").mkdir()
    text, body = audit_each(tmp_path)
    assert [line["file"] for line in body["files"]] == ["good.md"]
    assert [message.split(": ")[0] for message in body["unreadable"]] == [
        str(tmp_path / "bad.ipynb"),
        str(tmp_path / "bad.md"),
    ]
    assert text.count("\ncannot be read: ") == 2


def test_what_was_not_read_is_counted_and_shown(bench, tmp_path):
    (tmp_path / "x.md").write_text(
        "| S | A | B |\n|---|---|---|\n| one | 81.2 | 70.1 |\n| two | 80.2 | 70.3 |\n\ntext\n\n| 3 | 1.5 | 2.5 | 3.5 | 4.5 |\n"
    )
    answer = bench("audit", tmp_path / "x.md", "--unread")
    assert answer.returncode == 0
    assert "read 4 of 8 numbers in 2 tables" in answer.stdout
    assert "x.md, line 8: 1.5 of the cell '1.5'" in answer.stdout


def test_files_that_latex_inputs_are_read_from_its_own_folder_alone(tmp_path):
    table = spanned(1)
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "table.tex").write_text(latex(table))
    (tmp_path / "outside.tex").write_text(latex(table))
    (tmp_path / "paper" / "main.tex").write_text(r"\section{A}\input{table} \input{missing} \input{../outside}")
    sheets = read_all([tmp_path / "paper" / "main.tex"]).sheets
    assert numbers(sheets) == table.numbers


def test_all_tables_that_latex_inputs_include_and_nests_are_counted(tmp_path):
    table = spanned(1)
    (tmp_path / "table.tex").write_text(latex(table).replace("{tabular}", "{NiceTabular}"))
    (tmp_path / "part.tex").write_text(r"\input{table}")
    (tmp_path / "main.tex").write_text("%\\input{table}\n\\include{part}\n")
    pages = read_all([tmp_path / "main.tex"])
    assert pages.unread == []
    assert pages.reading == f"read {len(table.numbers)} of {len(table.numbers)} numbers in 1 table"


@pytest.mark.parametrize("name", ["aligned.txt", "simple.rst"])
def test_numbers_that_the_plain_pass_does_not_see_are_still_said_to_be_read(tmp_path, name):
    table = spanned(3)
    (tmp_path / name).write_text(CONTAINERS[name](table))
    assert read_all([tmp_path / name]).reading == (
        f"read 0 of 0 numbers in 0 tables, and {len(table.numbers)} more that were not counted"
    )


def test_values_behind_a_byte_order_mark_are_read_as_without_one(tmp_path):
    text = "source,table,system,task,value,params_m\n" + "".join(
        f"p,T,BERT,{task},{value},109\n" for task, value in (("rte", 66.4), ("mrpc", 88.9), ("cola", 51.2))
    )
    (tmp_path / "plain.csv").write_text(text)
    (tmp_path / "excel.csv").write_text(text, encoding="utf-8-sig")
    plain, excel = (read_all([tmp_path / name]) for name in ("plain.csv", "excel.csv"))
    assert excel.sheets == plain.sheets
    assert excel.reading == plain.reading == "read 4 of 4 numbers in 1 table"


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("**84.1**/**83.2**", [("84.1", "value"), ("83.2", "other")]),
        ("102.2% / 101.3%", [("102.2", "value"), ("101.3", "other")]),
        ("65.5 (64.4)", [("65.5", "value"), ("64.4", "other")]),
        ("84.3 (-0.5)", [("84.3", "value"), ("-0.5", "change")]),
        ("84.3 ↓0.5", [("84.3", "value"), ("-0.5", "change")]),
        ("84.3–85.1", [("84.3", "value"), ("85.1", "other")]),
        ("84.3%–85.1%", [("84.3", "value"), ("85.1", "other")]),
        ("20/28 (71.4%)", [("20", "value"), ("28", "other"), ("71.4", "other")]),
        ("67.0 [60.1, 73.2]", [("67.0", "value")]),
        ("67.0% [60.1%, 73.2%] / 81.2 [80.1–82.0]", [("67.0", "value"), ("81.2", "other")]),
        ("[60.1, 73.2]", [("60.1", "value"), ("73.2", "other")]),
        ("70M-235M", [("70", "value"), ("235", "other")]),
        ("**46.00** 🏆", [("46.00", "value")]),
        ("93.5<sup>†</sup>", [("93.5", "value")]),
        (r"3.2 \times 10^{19}", [("3.2e19", "value")]),
        ("91,2 %", [("91.2", "value")]),
        ("~ 1,200 tok/s", [("1200", "value")]),
        ("81.2±0.4/80.1±0.2", [("81.2", "value"), ("80.1", "other")]),
        *((text, []) for text in ("2:22:26", "2023-05-01", "[12]", "– [2]", "A100", "5-shot", "GPT-4", "T=0.7", "1st")),
    ],
)
def test_the_numbers_of_a_cell(cell, found):
    assert [(number.text, role) for number, role in numbers_of(cell)] == found


def test_a_deviation_stays_with_its_number():
    ((number, _),) = numbers_of("**81.2 ± 0.4**")
    assert number.deviation is not None
    assert number.deviation.value == Decimal("0.4")


def test_intervals_behind_scores_neither_hide_a_wrong_average_nor_count_as_unread(tmp_path):
    lines = [
        f"{s} | {a} [44.1, 97.2] | {b} [47.0, 95.1] | {(a + b) / 2}"
        for s, a, b in (("a", 67.0, 81.0), ("b", 60.0, 90.0), ("c", 71.0, 83.0))
    ]
    (tmp_path / "x.md").write_text(
        "\n".join(
            f"| {line} |"
            for line in ("S | RTE | MRPC | Avg", "-|-|-|-", *lines, "d | 50.0 [44.1, 57.2] | 80.0 [77.0, 85.1] | 68.0")
        )
    )
    pages = read_all([tmp_path / "x.md"])
    assert [(f.printed, f.recomputed) for f in audit(pages.sheets)] == [("68.0", "65.0")]
    assert pages.unread == []


def table(*lines):
    return from_text("\n".join(f"| {line} |" for line in lines), "x.md")


def test_names_keep_their_digits_and_brackets_and_equal_ones_are_numbered():
    (sheet,) = table(
        "S | v1 (EM) | v1 (F1) | Acc | Acc |  | MNLI-(m/mm)",
        "-|-|-|-|-|-|-",
        "a | 1.5 | 2.5 | 3.5 | 4.5 | 5.5 | 6.5/7.5",
    )
    assert sheet.columns == ["v1 (EM)", "v1 (F1)", "Acc", "Acc (2)", "column 6", "MNLI-m", "MNLI-mm"]


def test_two_lines_of_names_split_together_and_overwrite_nothing():
    (sheet,) = table(
        " | MNLI-(m/mm) | RTE", "-|-|-", "Model | Acc./Acc. | Acc.", "a | 84.6/83.4 | 66.4", "b | 85.1/84.2 | 67.4"
    )
    assert sheet.columns == ["MNLI-m Acc.", "MNLI-mm Acc.", "RTE Acc."]
    assert len(sheet.rows[0].cells) == 3


def test_empty_first_cells_take_the_label_above_and_leading_words_are_the_name():
    (sheet,) = table(
        "Model | Method | PPL",
        "-|-|-",
        "Llama | FP16 | 5.47",
        " | W8A8 | 5.51",
        "Mistral | FP16 | 5.25",
        " | W8A8 | 5.27",
    )
    assert [row.system for row in sheet.rows] == ["Llama, FP16", "Llama, W8A8", "Mistral, FP16", "Mistral, W8A8"]


def test_a_blank_line_of_pipes_within_a_body_makes_no_header():
    (sheet,) = table("S | Base | Pruned", "-|-|-", "a | 93.5 | 93.2", "|", "Ours | 93.5 | 93.7")
    assert [row.system for row in sheet.rows] == ["a", "Ours"]
    sheets = table(
        "S | A | B",
        "-|-|-",
        "a | 93.5 | 93.2",
        "---|---|---",
        "Ours | 93.5 | 93.7",
        "Model | C | D",
        "-|-|-",
        "x | 1.5 | 2.5",
    )
    assert [[row.system for row in sheet.rows] for sheet in sheets] == [["a", "Ours"], ["x"]]


def test_a_line_of_one_label_heads_the_rows_below_it():
    text = r"""\begin{tabular}{lcc} Method & A & B \\ \midrule \multicolumn{3}{c}{\textit{Gradient-free}} \\ \midrule
    one & 80.1 & 70.1 \\ two & 81.1 & 71.1 \\ \midrule \multicolumn{3}{c}{Others} \\ one & 60.0 & 50.0 \\ \end{tabular}"""
    (sheet,) = from_text(text, "x.tex")
    assert [(row.group, row.system) for row in sheet.rows] == [
        ("Gradient-free", "one"),
        ("Gradient-free", "two"),
        ("Others", "one"),
    ]


def test_a_row_that_lost_the_empty_place_of_its_label_is_moved_back():
    (sheet,) = table(
        "Kind | By | Size | A",
        "-|-|-|-",
        "Pruning | Guo et al. | 67% | 88.5",
        "Chen et al. | 48% | 87.8 |  ",
        "Quantized | Shen et al. | 15% | 88.3",
    )
    assert [row.system for row in sheet.rows] == [
        "Pruning, Guo et al.",
        "Pruning, Chen et al.",
        "Quantized, Shen et al.",
    ]
    assert [row.cells["A"].text for row in sheet.rows] == ["88.5", "87.8", "88.3"]


@pytest.mark.parametrize("macro", [r"\newcommand{\best}[1]{%" + "\n  #1%\n}", r"\def\us{" + "\nOurs\n}"])
def test_a_row_below_a_macro_of_several_lines_has_its_line_of_the_file(macro):
    table = r"\begin{tabular}{lc}", r"S & A \\", r"\us & \best{1.5} \\", r"b & 2.5 \\", r"\end{tabular}"
    (sheet,) = from_text("\n".join([macro, *table]), "x.tex")
    assert [row.line for row in sheet.rows] == [macro.count("\n") + 4, macro.count("\n") + 5]


@pytest.mark.parametrize(
    ("macros", "row"),
    [
        (r"\newcommand{\tb}{TinyBERT}\newcommand{\ours}{\tb-six}", "TinyBERT-six"),
        (r"\newcommand{\ours}{\tb-six}\newcommand{\tb}{TinyBERT}", "TinyBERT-six"),
        (r"\newcommand{\m}{\mathrm{MicroBERT}}\newcommand{\ours}{\m}", "MicroBERT"),
        (r"\newcommand{\ours}{\ours}", "ours"),
    ],
)
def test_a_macro_may_use_another_one_or_begin_like_a_command_of_its_body(macros, row):
    (sheet,) = from_text(macros + r"\begin{tabular}{lc} S & A \\ \ours & 1.5 \\ b & 2.5 \\ \end{tabular}", "x.tex")
    assert [one.system for one in sheet.rows] == [row, "b"]


def test_an_environment_that_never_ends_loses_itself_alone():
    text = r"\begin{tabular}{lc} A & B \\ one & 1.5 \\" + "\n\n| S | A | B |\n|---|---|---|\n| a | 1.5 | 2.5 |\n"
    assert numbers(from_text(text, "x.md")) == ["1.5", "2.5"]


@pytest.mark.slow
def test_the_public_files_are_read():
    """76 files of others: 98 % of the numbers of Markdown tables and 95 % of LaTeX, by a count apart from the reader."""
    if not WILD.is_dir():
        pytest.skip("needs the judged public tables in ../shared/tables-in-the-wild")
    there: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for line in (WILD / "COUNTS.tsv").read_text().splitlines()[1:]:
        file = WILD / line.split("\t")[0]
        pages = pages_of([file])
        there[file.suffix] += pages.printed
        missing[file.suffix] += len(pages.unread)
    assert there[".md"] > 4000
    assert there[".tex"] > 2000
    for kind, least in ((".md", 0.98), (".tex", 0.95), (".html", 1.0), (".rst", 1.0), (".txt", 0.98)):
        assert 1 - missing[kind] / there[kind] >= least, kind
