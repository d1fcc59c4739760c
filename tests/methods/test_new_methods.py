"""Four methods as authors would write them keep the contract; of 24 mistakes in them, check-method finds those that break it.

The others keep the contract as it is written: only somebody who knows the paper's formula can find them.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import tiny

import methods
from bench.conformance.checks import check_method
from bench.conformance.layer_map import layer_map
from bench.record.store import Store

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "plugin" / "new_methods"
CLASSES = {"rkd": "RKD", "codir": "CoDIR", "mixkd": "MixKD", "takd": "TAKD"}


@pytest.fixture(autouse=True)
def _modules_of_one_test(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in CLASSES:
        sys.modules.pop(name, None)


def text_of(name: str) -> str:
    """A method's file; that of TAKD is printed in docs/extend.md."""
    if name != "takd":
        return (FOLDER / f"{name}.py").read_text()
    page = (ROOT / "docs" / "extend.md").read_text()
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "TAKD" in c)
    return code


def planted(folder: Path, name: str, *edits: tuple[str, str]) -> type:
    """The method of a file, with these parts of its text replaced."""
    text = text_of(name)
    for old, new in edits:
        assert old in text, f"{name}.py has no {old!r}"
        text = text.replace(old, new)
    (folder / f"{name}.py").write_text(text)
    return methods.get(f"{name}:{CLASSES[name]}")


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_a_new_method_in_a_file_keeps_the_contract(tmp_path, name):
    checks = check_method(planted(tmp_path, name))
    assert [check.found for check in checks if not check.passed] == []


@dataclass(frozen=True)
class Mistake:
    """One mistake: the file, what stands in it and what stood there before, and what finds it."""

    name: str
    edits: tuple[tuple[str, str], ...]
    check: str
    says: str = ""


OURS = "student.hidden(m)"
POOL = "layout.mean(states)"
PADDED = "layout.padded(states)"
ZEROED = f"{PADDED}.masked_fill(~layout.mask_BL[..., None], 0.0)"
LAST = f"({OURS} if m == max(layers) else {OURS}.detach())"
CONTRAST = "return info_nce(torch.cat(ours, 1), torch.cat(theirs, 1), self.temperature)"
GRAM = "a, b = torch.cat(ours, 1), torch.cat(theirs, 1)\n            return F.mse_loss(a @ a.T, b @ b.T)"
PLAIN = (CONTRAST, "return F.mse_loss(torch.cat(ours, 1), torch.cat(theirs, 1))")
ALONE = (", across_batch=True", "")
FIRST = "        del layers[0]\n"
USED, PULL = "taps are used", "terms pull to the teacher"
MOVE, UNPADDED, APART = "terms move the deployed", "padding has no effect", "sequences do not mix"
NEEDS = "needs"

FOUND = {
    "d1 student detached": Mistake("rkd", ((OURS, f"{OURS}.detach()"),), MOVE),
    "d2 all layers but the last detached": Mistake(
        "rkd", ((OURS, LAST),), USED, "no gradient there"
    ),
    "d3 detached before the projection": Mistake("codir", ((OURS, f"{OURS}.detach()"),), MOVE),
    "p1 distances of padded means": Mistake("rkd", ((POOL, f"{PADDED}.mean(1)"),), UNPADDED),
    "p3 tokens with padding": Mistake("codir", ((POOL, PADDED), PLAIN, ALONE), UNPADDED),
    "p4 zeros at padding count": Mistake("codir", ((POOL, ZEROED), PLAIN, ALONE), UNPADDED),
    "p5 padded means of one sentence": Mistake(
        "codir", ((POOL, f"{PADDED}.mean(1)"), PLAIN, ALONE), APART
    ),
    "p6 contrast of padded means": Mistake(
        "codir", ((POOL, f"{PADDED}.mean(1)"),), UNPADDED, "its value is "
    ),
    "p7 Gram matrices of padded means": Mistake(
        "codir", ((POOL, f"{PADDED}.mean(1)"), (CONTRAST, GRAM)), UNPADDED, "its value is "
    ),
    "l2 teacher layer n + 1": Mistake(
        "rkd", ((FIRST, FIRST + "        layers = {m: n + 1 for m, n in layers.items()}\n"),), NEEDS
    ),
    "l4 student layer m - 1 read": Mistake("rkd", ((OURS, "student.hidden(m - 1)"),), NEEDS),
    "s1 negative contrast": Mistake(
        "codir", ((CONTRAST, CONTRAST.replace("info", "-info")),), PULL, "wrong sign"
    ),
    "s1 negative contrast, no distance": Mistake(
        "codir",
        (
            (CONTRAST, CONTRAST.replace("info", "-info")),
            ("across_batch=True", "across_batch=True, is_distance=False"),
        ),
        PULL,
        "wrong sign",
    ),
    "s2 negative relations": Mistake("rkd", (("torch.stack(parts)", "-torch.stack(parts)"),), PULL),
    "s3 one partner for all": Mistake(
        "codir", (("torch.arange(len(ours)", "torch.zeros(len(ours), dtype=torch.int64"),), PULL
    ),
    "s3 the partner of the next": Mistake(
        "codir", ((" / temperature, partners)", " / temperature, partners.roll(1))"),), PULL
    ),
    "u1 taps that nobody reads": Mistake(
        "rkd",
        (
            ("hidden(*layers.values())\n", "hidden(*layers.values()) | scores(1, 2)\n"),
            ("import hidden", "import hidden, scores"),
        ),
        USED,
        "declares scores 1, scores 2 of the teacher",
    ),
}
"""What a mistake is -> the check that finds it."""


@pytest.mark.slow
@pytest.mark.parametrize("what", FOUND)
def test_a_mistake_in_a_new_method_is_found(tmp_path, what):
    mistake = FOUND[what]
    (check,) = check_method(planted(tmp_path, mistake.name, *mistake.edits), [mistake.check])
    assert mistake.says in check.found
    assert not check.passed


def test_a_contrastive_loss_is_no_mistake_whether_or_not_it_says_that_it_is_no_distance(tmp_path):
    said = ("across_batch=True", "across_batch=True, is_distance=False")
    for edits in ((), (said,)):
        sys.modules.pop("codir", None)
        (check,) = check_method(planted(tmp_path, "codir", *edits), [PULL])
        assert check.passed
        assert not check.unseen, "it was looked at"


def test_a_term_that_pushes_from_the_teacher_says_so_twice(tmp_path):
    """A negative weight, and that it is no distance: nobody can tell whether that is meant."""
    edits = [("Term(contrast, 1.0", "Term(contrast, -1.0")]
    (check,) = check_method(planted(tmp_path, "codir", *edits), [PULL])
    assert "wrong sign" in check.found
    sys.modules.pop("codir")
    edits.append(("across_batch=True", "across_batch=True, is_distance=False"))
    (check,) = check_method(planted(tmp_path, "codir", *edits), [PULL])
    assert check.passed
    assert any("pushes" in why for why in check.unseen)


def test_what_is_not_looked_at_is_said(bench, tmp_path):
    """A term that compares sequences depends on the others by its formula."""
    kind = planted(tmp_path, "codir")
    (check,) = check_method(kind, [APART])
    assert check.passed
    assert check.unseen == ("stage distil, term contrast: it compares sequences (across_batch)",)


KEPT = {
    "d4 half of the edges detached": Mistake(
        "rkd", (("edges @ edges.tr", "edges @ edges.detach().tr"),), ""
    ),
    "d5 mean distance detached": Mistake("rkd", (("0].mean()", "0].mean().detach()"),), ""),
    "d6 a frozen teacher learns": Mistake(
        "mixkd",
        (
            ("        teacher.requires_grad_(False)\n", ""),
            ("with torch.no_grad(), mixed_words", "with mixed_words"),
        ),
        "",
    ),
    "d7 the assistant answers with dropout": Mistake("takd", ((".eval(), batch", ", batch"),), ""),
    "p2 sums in the place of means, of distances without a scale": Mistake(
        "rkd", ((POOL, f"{ZEROED}.mean(1)"),), ""
    ),
    "l1 teacher layer n - 1": Mistake(
        "rkd", ((FIRST, FIRST + "        layers = {m: n - 1 for m, n in layers.items()}\n"),), ""
    ),
    "l3 student layer m - 1": Mistake(
        "rkd", ((FIRST, FIRST + "        layers = {m - 1: n for m, n in layers.items()}\n"),), ""
    ),
    "l5 both": Mistake(
        "rkd",
        ((FIRST, FIRST + "        layers = {m - 1: n - 1 for m, n in layers.items()}\n"),),
        "",
    ),
    "s4 times the temperature": Mistake("codir", (("/ temperature", "* temperature"),), ""),
}
"""Mistakes that keep the contract: a formula of another paper would be so. That they are not found is no promise."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("what", KEPT)
def test_a_mistake_that_keeps_the_contract_is_not_found(tmp_path, what):
    mistake = KEPT[what]
    checks = check_method(planted(tmp_path, mistake.name, *mistake.edits))
    assert [check.found for check in checks if not check.passed] == []


def test_the_layer_map_shows_which_layers_are_read(tmp_path):
    """Layers that are off by one keep the contract, but can be seen."""
    expected = "distance: hidden: student 1 2 3 4 <- teacher 3 6 9 12"
    assert expected in "\n".join(layer_map(planted(tmp_path, "rkd")()))
    sys.modules.pop("rkd")
    off = "\n".join(layer_map(planted(tmp_path, "rkd", *KEPT["l1 teacher layer n - 1"].edits)()))
    assert "distance: hidden: student 1 2 3 4 <- teacher 2 5 8 11" in off


@pytest.mark.slow
def test_the_assistant_of_the_page_is_made_once_and_serves_two_seeds(bench, tmp_path, places):
    planted(tmp_path, "takd")
    sys.modules.pop("takd")
    row = f"takd:TAKD:{tiny.SHAPE}:start=random:assistant_layers=1:assistant_epochs=1"
    words = ["--methods", row, "--tasks", "rte", "--seeds", "0,1", "--epochs", 1, "--yes"]
    done = bench("run", *words, *places)
    assert done.returncode == 0, done.stderr
    records = [r for r in Store(tmp_path / "r").records() if r.cell.method == "takd:TAKD"]
    assert len(records) == 2
    made = {record.artefacts["assistant"]["key"] for record in records}
    assert len(made) == 1
    assert records[0].artefacts["assistant"]["train"]["steps"] > 0
