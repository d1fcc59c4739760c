"""The audit's reader: one table in every container, what cells hold, how much was read."""

from __future__ import annotations

from decimal import Decimal

import pytest
from audit_containers import CONTAINERS, from_csv, from_text, latex, spanned

from bench.audit.checks import audit
from bench.audit.printed import numbers_of, printed
from bench.audit.sheets import read_all


def numbers(sheets):
    return sorted(
        cell.text for sheet in sheets for row in sheet.rows for cell in row.cells.values()
    )


def systems(sheet):
    return [row.system for row in sheet.rows]


def table(*lines):
    return from_text("\n".join(f"| {line} |" for line in lines), "x.md")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CONTAINERS)
def test_every_number_of_every_container_is_read_below_its_name(tmp_path, name, seed):
    written = spanned(seed)
    (tmp_path / name).write_text(CONTAINERS[name](written))
    pages = read_all([tmp_path / name])
    (sheet,) = pages.sheets
    for row, values, family, system in zip(
        sheet.rows, written.values, written.families, written.systems, strict=True
    ):
        assert [cell.text for cell in row.cells.values()] == values
        assert row.system in (system, f"{family}, {system}")
    for column, (benchmark, task) in zip(sheet.columns, written.tasks, strict=True):
        assert column.startswith(benchmark)
        assert column.split()[-1] == task
    assert pages.unread == []
    count = len(written.numbers)
    assert pages.reading == f"read {count} of {count} numbers in 1 table"


def test_decimal_commas_are_read_and_counted_as_points_are(tmp_path):
    rows = [
        ("System", "RTE", "MRPC"),
        ("A", "60,5 ± 0,3", "**80,1**"),
        ("B", "61,5 (+1,0)", "81,25 %"),
        ("C", "1,234", "$82,0$"),
    ]
    commas = "".join(f"| {' | '.join(row)} |\n" for row in [rows[0], ["---"] * 3, *rows[1:]])
    points = commas
    for number in ("60,5", "0,3", "80,1", "61,5", "1,0", "81,25", "82,0"):
        points = points.replace(number, number.replace(",", "."))
    read = []
    semicolons = "\n".join(";".join(row) for row in rows)
    for name, text in (
        ("commas.md", commas),
        ("points.md", points),
        ("semicolons.csv", semicolons),
    ):
        (tmp_path / name).write_text(text)
        read.append(read_all([tmp_path / name]))
    for pages in read:
        assert numbers(pages.sheets) == numbers(read[1].sheets)
        assert pages.reading == "read 7 of 7 numbers in 1 table"


def test_files_that_latex_inputs_are_read_and_counted_from_its_own_folder_alone(tmp_path):
    written = spanned(1)
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "table.tex").write_text(
        latex(written).replace("{tabular}", "{NiceTabular}")
    )
    (tmp_path / "paper" / "part.tex").write_text(r"\input{table}")
    (tmp_path / "outside.tex").write_text(latex(written))
    main = tmp_path / "paper" / "main.tex"
    main.write_text("%\\input{table}\n\\include{part} \\input{missing} \\input{../outside}\n")
    pages = read_all([main])
    assert numbers(pages.sheets) == written.numbers
    assert pages.unread == []
    assert (
        pages.reading == f"read {len(written.numbers)} of {len(written.numbers)} numbers in 1 table"
    )


def test_tidy_values_with_two_metrics_of_a_task_sizes_and_empty_lines(tmp_path):
    text = "source,table,system,task,metric,split,value,params_m\n\n"
    for system, values in (
        ("one", {"EM": 80.1, "F1": 88.2}),
        ("two", {"F1": 87.0, "EM": 79.0}),
        ("three", {"F1": 86.0}),
    ):
        text += "".join(
            f"p,T,{system},SQuAD,{metric},dev,{value},66\n" for metric, value in values.items()
        )
    (sheet,) = from_csv(text)
    assert {row.system: {c: v.text for c, v in row.cells.items()} for row in sheet.rows} == {
        "one": {"SQuAD (EM)": "80.1", "SQuAD (F1)": "88.2"},
        "two": {"SQuAD (F1)": "87.0", "SQuAD (EM)": "79.0"},
        "three": {"SQuAD (F1)": "86.0"},
    }
    # with a byte order mark, as of Excel
    (tmp_path / "x.csv").write_text(text, encoding="utf-8-sig")
    pages = read_all([tmp_path / "x.csv"])
    assert [row.cells for row in pages.sheets[0].rows] == [row.cells for row in sheet.rows]
    assert pages.reading == "read 8 of 8 numbers in 1 table"


@pytest.mark.parametrize(
    ("text", "value", "places"),
    [
        ("92.6", "92.6", 1),
        (r"\textbf{92.60}", "92.60", 2),
        ("98.4%", "98.4", 1),
        ("−2.0", "-2.0", 1),
        (">−1.2", "-1.2", 1),
        ("+0.3", "0.3", 1),
        ("1,043", "1043", 0),
        (r"$81.2_{\pm 0.4}$", "81.2", 1),
    ],
)
def test_the_number_of_a_cell(text, value, places):
    number = printed(text)
    assert number is not None
    assert (number.value, number.places) == (Decimal(value), places)


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("**84.1**/**83.2**", [("84.1", "value"), ("83.2", "other")]),
        ("102.2% / 101.3%", [("102.2", "value"), ("101.3", "other")]),
        ("65.5 (64.4)", [("65.5", "value"), ("64.4", "other")]),
        ("84.3 (-0.5)", [("84.3", "value"), ("-0.5", "change")]),
        ("84.3 ↓0.5", [("84.3", "value"), ("-0.5", "change")]),
        ("84.3%–85.1%", [("84.3", "value"), ("85.1", "other")]),
        ("67.0 [60.1, 73.2]", [("67.0", "value")]),
        ("67.0% [60.1%, 73.2%] / 81.2 [80.1–82.0]", [("67.0", "value"), ("81.2", "other")]),
        ("**46.00** 🏆", [("46.00", "value")]),
        ("93.5<sup>†</sup>", [("93.5", "value")]),
        (r"3.2 \times 10^{19}", [("3.2e19", "value")]),
        ("~ 1,200 tok/s", [("1200", "value")]),
        ("81.2±0.4/80.1±0.2", [("81.2", "value"), ("80.1", "other")]),
        *(
            (text, [])
            for text in (
                "2:22:26",
                "2023-05-01",
                "[12]",
                "– [2]",
                "A100",
                "5-shot",
                "T=0.7",
                "1st",
                "n/a",
                "",
            )
        ),
    ],
)
def test_the_numbers_of_a_cell(cell, values):
    assert [(number.text, role) for number, role in numbers_of(cell)] == values


@pytest.mark.parametrize(
    "cell",
    [
        r"\underline{91.2}",
        r"91.2$_{\pm0.3}$",
        r"91.2\,\%",
        r"{\bf 91.2}",
        r"\num{91.2}",
        r"\cellcolor{gray!20}91.2",
        r"91.2\tnote{a}",
        r"91.2\textsuperscript{*}",
        r"91.2\rlap{$^{*}$}",
        r"91.2\textsuperscript{$\dagger$}\rlap{\textsuperscript{$\ddagger$}}",
        r"\textcolor{red}{91.2}",
        r"\textbf{91.2}$_{0.3}$",
        r"91.2 \cite{somebody}",
    ],
)
def test_numbers_in_the_dress_of_latex(cell):
    text = (
        r"\begin{tabular}{lc} Model & A \\ one & "
        + cell
        + r" \\ BERT$_{\rm BASE}$ & 90 \\ \end{tabular}"
    )
    (sheet,) = from_text(text, "x.tex")
    assert {row.system: row.cells["A"].text for row in sheet.rows} == {
        "one": "91.2",
        "BERT_BASE": "90",
    }


PAGE = r"""
## Results

System | Params | FLOPs | Speedup | A | MNLI-(m/mm) | Avg |
---|---|---|---|---|---|---|

BERT (Teacher) | 110 M | 22.5 B | 1.0× | 90.0 | 84.0/83.0 | 85.7 |

${\mathrm{SmallBERT}}_{4}$ | 55 M | 7.5 B | 3.0× | 89.0 | 83.0/82.0 | 84.7 |

Avg | 89.5 | 83.5/82.5 | 85.2 |

Model<TAB>Score<TAB><b>A</b>
one<TAB>70.0<TAB>70.0
two<TAB><b>71.0</b><TAB>71.0
""".replace("<TAB>", "\t")


def test_pages_with_blank_lines_formulas_pairs_and_tabs_are_read():
    first, second = from_text(PAGE, "page.txt")
    assert systems(first) == ["BERT (Teacher)", "SmallBERT_4", "Avg"]
    assert systems(second) == ["one", "two"]
    _, small, average = ({c: v.text for c, v in row.cells.items()} for row in first.rows)
    assert small == {"A": "89.0", "MNLI-m": "83.0", "MNLI-mm": "82.0", "Avg": "84.7"}
    # a row without sizes is printed without empty cells for them
    assert average == {"A": "89.5", "MNLI-m": "83.5", "MNLI-mm": "82.5", "Avg": "85.2"}
    assert {c: v.text for c, v in first.rows[1].sizes.items()} == {
        "params": "55",
        "flops": "7.5",
        "speed-up": "3.0",
    }


def test_two_lines_of_names_split_together_and_overwrite_nothing():
    (sheet,) = table(
        " | MNLI-(m/mm) | RTE",
        "-|-|-",
        "Model | Acc./Acc. | Acc.",
        "a | 84.6/83.4 | 66.4",
        "b | 85.1/84.2 | 67.4",
    )
    assert sheet.columns == ["MNLI-m Acc.", "MNLI-mm Acc.", "RTE Acc."]
    assert len(sheet.rows[0].cells) == 3


def test_empty_first_cells_take_the_label_above_and_leading_words_are_the_name():
    (sheet,) = table(
        "Model | Method | PPL",
        "-|-|-",
        "A | FP16 | 5.47",
        " | W8A8 | 5.51",
        "B | FP16 | 5.25",
        " | W8A8 | 5.27",
    )
    assert systems(sheet) == ["A, FP16", "A, W8A8", "B, FP16", "B, W8A8"]


def test_a_row_that_lost_the_empty_place_of_its_label_is_moved_back():
    lines = (
        "Pruning | Guo et al. | 67% | 88.5",
        "Chen et al. | 48% | 87.8 |  ",
        "Quantized | Shen et al. | 15% | 88.3",
    )
    (sheet,) = table("Kind | By | Size | A", "-|-|-|-", *lines)
    assert systems(sheet) == [
        "Pruning, Guo et al.",
        "Pruning, Chen et al.",
        "Quantized, Shen et al.",
    ]
    assert [row.cells["A"].text for row in sheet.rows] == ["88.5", "87.8", "88.3"]


@pytest.mark.parametrize("between", ["|", "---|---|---"])
def test_a_line_without_words_within_a_body_makes_no_header(between):
    body = "a | 93.5 | 93.2", between, "Ours | 93.5 | 93.7"
    first, second = table("S | A | B", "-|-|-", *body, "Model | C | D", "-|-|-", "x | 1.5 | 2.5")
    assert (systems(first), systems(second)) == (["a", "Ours"], ["x"])


def test_a_line_of_one_label_heads_the_rows_below_it():
    text = r"""\begin{tabular}{lcc} Method & A & B \\ \midrule \multicolumn{3}{c}{\textit{Gradient-free}} \\ \midrule
    one & 80.1 & 70.1 \\ two & 81.1 & 71.1 \\ \midrule \multicolumn{3}{c}{Others} \\ one & 60.0 & 50.0 \\ \end{tabular}"""
    (sheet,) = from_text(text, "x.tex")
    assert [row.group for row in sheet.rows] == ["Gradient-free", "Gradient-free", "Others"]
    assert systems(sheet) == ["one", "two", "one"]


@pytest.mark.parametrize(
    "macro", [r"\newcommand{\best}[1]{%" + "\n  #1%\n}", r"\def\us{" + "\nOurs\n}"]
)
def test_a_row_below_a_macro_of_several_lines_has_its_line_of_the_file(macro):
    lines = (
        r"\begin{tabular}{lc}",
        r"S & A \\",
        r"\us & \best{1.5} \\",
        r"b & 2.5 \\",
        r"\end{tabular}",
    )
    (sheet,) = from_text("\n".join([macro, *lines]), "x.tex")
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
    (sheet,) = from_text(
        macros + r"\begin{tabular}{lc} S & A \\ \ours & 1.5 \\ b & 2.5 \\ \end{tabular}", "x.tex"
    )
    assert systems(sheet) == [row, "b"]


def test_an_environment_that_never_ends_loses_itself_alone():
    text = (
        r"\begin{tabular}{lc} A & B \\ one & 1.5 \\"
        + "\n\n| S | A | B |\n|---|---|---|\n| a | 1.5 | 2.5 |\n"
    )
    assert numbers(from_text(text, "x.md")) == ["1.5", "2.5"]


def test_a_percent_sign_is_a_comment_in_latex_alone():
    latex = "\n\\begin{tabular}{lc}\nS & A \\\\ % 9.5 &\nd & 1.5 \\\\ \\end{tabular}\n\nHere \\begin{x} and 5 % of it.\n"
    first, second = from_text(
        f"{latex}| S | % of BERT | B |\n|---|---|---|\n| a | 90 % | 81.5 |\n", "x.md"
    )
    assert [list(row.cells) for row in first.rows] == [["A"]]
    assert [cell.text for cell in second.rows[0].cells.values()] == ["90", "81.5"]


SCORES = """System,MNLI,SST-2,RTE,Average
BERT,84.6,93.5,66.4,81.5
Tiny,82.5,92.6,62.9,75.3
MiniLM,84.0,92.3,71.2,82.5
"""
"""The second average should be 79.3."""


def from_values(tmp_path, text):
    """The sheets of a file of comma-separated values."""
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    return read_all([tmp_path / "x.csv"]).sheets


@pytest.mark.parametrize(
    ("above", "line"),
    [
        ("", 3),
        ("Results of March\n", 4),
        ("# made by a script\n\n", 5),
        ("sep=,\n", 4),
        ("Scores of ours; and theirs\n", 4),
    ],
)
def test_lines_above_the_header_of_values_are_no_header(tmp_path, above, line):
    (sheet,) = from_values(tmp_path, above + SCORES)
    assert list(sheet.rows[1].cells) == ["MNLI", "SST-2", "RTE", "Average"]
    assert sheet.rows[1].line == line
    (finding,) = audit([sheet])
    assert (finding.column, finding.recomputed) == ("Average", "79.3")


def test_a_line_of_groups_above_the_names_of_values_changes_no_name(tmp_path):
    (sheet,) = from_values(tmp_path, f",Scores,,,\n{SCORES}")
    assert list(sheet.rows[0].cells) == ["MNLI", "SST-2", "RTE", "Average"]


def test_line_breaks_in_quotes_and_marks_that_are_no_line_ends_stay_in_their_cell(tmp_path):
    text = SCORES.replace("82.5,92.6", '"82.5\n± 0.2",92.6').replace("Tiny", '"Ti\u2028ny\x0b"')
    (sheet,) = from_values(tmp_path, text.replace("SST-2", '"SST-2\n(acc)"'))
    assert systems(sheet) == ["BERT", "Ti ny", "MiniLM"]
    assert list(sheet.rows[1].cells) == ["MNLI", "SST-2 (acc)", "RTE", "Average"]
    assert sheet.rows[1].cells["MNLI"].deviation.text == "0.2"
    (piped,) = from_text("| S | A |\n|---|---|\n| a\u2028b | 1.5 |\n| c | 2.5 |\n", "x.md")
    assert [row.cells["A"].text for row in piped.rows] == ["1.5", "2.5"]


@pytest.mark.parametrize("definer", [r"\def", r"\gdef", r"\edef", r"\xdef", r"\long\def"])
def test_scores_in_macros_are_read_by_whatever_command_they_are_defined(definer):
    text = rf"{definer}\score{{82.5}}\begin{{tabular}}{{lc}} S & A \\ a & \score \\ b & 2.5 \\ \end{{tabular}}"
    (sheet,) = from_text(text, "x.tex")
    assert [row.cells["A"].text for row in sheet.rows] == ["82.5", "2.5"]
