"""Macros of LaTeX are put in as TeX would, and the work of it is bounded whatever a source defines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.audit.macros import MOST_GROWTH, Macros
from bench.audit.sheets import read_all
from bench.errors import InputError

NAMES = "abcde"
DEFINERS = {
    r"\def": r"\def\{name}{{{body}}}",
    r"\newcommand": r"\newcommand{{\{name}}}{{{body}}}",
    r"\renewcommand": r"\renewcommand\{name}{{{body}}}",
    r"\providecommand": r"\providecommand*{{\{name}}}{{{body}}}",
    "with an argument": r"\newcommand{{\{name}}}[1]{{#1{body}#1}}",
    "def with an argument": r"\def\{name}#1{{{body}#1#1}}",
    r"\edef": r"\edef\{name}{{{body}}}",
    "within another": r"\def\outer{{\def\{name}{{{body}}}}}",
}


class Counting(Macros):
    """Counts the characters that are looked at."""

    work = 0

    def _put_in(self, text: str, open_macros: frozenset[str], depth: int) -> str:
        self.work += len(text)
        return super()._put_in(text, open_macros, depth)


def put_in(source: str) -> tuple[str, int]:
    macros = Counting(source)
    try:
        shown = macros.put_in(macros.rest)
    except InputError:
        shown = ""
    return shown, macros.work


def doublings(count: int, definer: str) -> str:
    """``count`` macros, each of which calls the one before twice."""
    names = [f"m{chr(97 + place // 26)}{chr(97 + place % 26)}" for place in range(count)]
    lines = [DEFINERS[definer].format(name=names[0], body="1.5 ")]
    for own, before in zip(names[1:], names, strict=False):
        call = rf"\{before}{{}}"
        lines.append(DEFINERS[definer].format(name=own, body=call * 2))
    return "\n".join([*lines, rf"\begin{{tabular}}{{lc}} S & A \\ a & \{names[-1]}{{}} \\ "])


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Definitions of some names by calls of each other, also of themselves, and a text that calls them."""
    word = st.one_of(
        st.sampled_from([rf"\{name}" for name in NAMES]),
        st.sampled_from([rf"\{name}{{}}" for name in NAMES]),
        st.sampled_from([rf"\{name}{{\{other}{{x}}}}" for name in NAMES for other in NAMES]),
        st.sampled_from(["{", "}", "x", " ", "#1", r"\other", "&"]),
    )
    text = st.lists(word, max_size=12).map("".join)
    lines = [
        draw(st.sampled_from(list(DEFINERS.values()))).format(
            name=draw(st.sampled_from(NAMES)), body=draw(text)
        )
        for _ in range(draw(st.integers(0, 12)))
    ]
    return "\n".join([*lines, draw(text) * draw(st.integers(1, 30))])


@settings(deadline=None, max_examples=100)
@given(programs())
def test_any_program_of_macros_ends_within_a_bound_of_characters(source):
    shown, work = put_in(source)
    assert work <= (MOST_GROWTH + 1) * len(source)
    assert len(shown) <= (MOST_GROWTH + 1) * len(source)


@pytest.mark.parametrize("definer", DEFINERS)
@pytest.mark.parametrize("count", [60, 400])
def test_doublings_end_within_the_bound_by_whatever_command_they_are_defined(definer, count):
    source = doublings(count, definer)
    _, work = put_in(source)
    assert work <= (MOST_GROWTH + 1) * len(source)


@pytest.mark.parametrize(
    "source",
    [
        r"\def\a#1{#1#1}" + r"\a{" * 60 + "x" + "}" * 60,
        r"\def\a#1{#1#1}" + r"\a{" * 8_000,
        r"\def\a#1{\b{#1}\b{#1}}\def\b#1{\c{#1}\c{#1}}\def\c#1{\a{#1}\a{#1}}" + r"\a{x}" * 1000,
        rf"\def\a#1{{{'#1' * 9000}}}" + r"\a{" + "x" * 9000 + "}",
        r"\def\a{}\def\b{\a\a\a\a\a\a\a\a}"
        + r"\def\c{\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b}"
        + r"\c" * 500,
        r"\newcommand\a[" * 20_000,
        r"\newcommand" + " " * 60_000,
    ],
)
def test_arguments_that_double_or_never_close_end_within_the_bound(source):
    shown, work = put_in(source)
    assert work <= (MOST_GROWTH + 1) * len(source)
    assert len(shown) <= (MOST_GROWTH + 1) * len(source)


def test_what_stays_within_the_bound_is_put_in_wholly():
    macros = Macros(r"\def\a{x}\def\b{\a\a}\def\c{\b\b}" + r"\newcommand{\d}[1]{<#1|\c|#1>}")
    assert macros.put_in(r"\d{\c}\b{}, \a.") == "<xxxx|xxxx|xxxx>xx, x."
    chain = "".join(rf"\def\{'m' * place}{{\{'m' * (place + 1)}}}" for place in range(1, 100))
    macros = Macros(chain + rf"\def\{'m' * 100}{{84.3}}")
    assert macros.put_in(r"\m") == "84.3"


def test_a_table_of_nothing_but_short_calls_of_a_long_macro_is_read(tmp_path):
    """The densest that papers have: every cell coloured, underlined and bold by a name of one letter."""
    cells = r" & ".join([r"\g{1.5}"] * 8)
    (tmp_path / "x.tex").write_text(
        r"\newcommand{\g}[1]{\cellcolor[HTML]{D9EAD3}\underline{\textbf{\textcolor{blue}{#1}}}}"
        + r"\begin{tabular}{lc} S & A & B & C & D & E & F & G & H \\ "
        + "".join(rf"s{row} & {cells} \\ " for row in range(50))
        + r"\end{tabular}"
    )
    assert read_all([tmp_path / "x.tex"]).reading == "read 400 of 400 numbers in 1 table"


def test_the_program_says_it_in_one_line(bench, tmp_path):
    (tmp_path / "paper.tex").write_text(doublings(60, r"\def") + r"b & 2.5 \\ \end{tabular}")
    answer = bench("audit", tmp_path / "paper.tex")
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1
    assert "its macros write more than 50 times the text of the file" in answer.stderr
