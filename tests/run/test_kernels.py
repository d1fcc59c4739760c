"""--kernels fast: rows of their own whose curves are those of the usual kernels up to rounding."""

from __future__ import annotations

import pytest
import tiny
import torch
from safetensors.torch import load_file

from bench.cache import WEIGHTS, cache_root
from bench.record.store import Store

SMALL = f"{tiny.SHAPE}:start=random"
ROWS = f"finetune:{SMALL},kd:{SMALL},tinybert:{SMALL}"


@pytest.fixture
def typed(places):
    return ("run", "--tasks", "rte", "--epochs", 3, "--device", "cpu", *places)


def by_row(root):
    return {r.cell.label: r for r in Store(root).records() if r.cell.method != "teacher"}


@pytest.mark.slow
def test_fast_kernels_have_rows_and_keys_of_their_own(bench, typed, places, tmp_path):
    for words in ((), ("--kernels", "fast")):
        done = bench(*typed, "--methods", ROWS, *words)
        assert done.returncode == 0, done.stderr
    found = by_row(tmp_path / "r")
    fast = {label: record for label, record in found.items() if record.cell.kernels}
    assert {label.split(":")[0] for label in fast} == {"finetune", "kd", "tinybert"}
    assert len(found) == 6
    for label, record in fast.items():
        assert label.endswith(" (fast kernels)")
        plain = found[label.removesuffix(" (fast kernels)")]
        assert record.key != plain.key
        assert record.train_key != plain.train_key
        assert record.train.flops_teacher == plain.train.flops_teacher
        for stage, curves in plain.terms.items():
            for term, values in curves.items():
                assert record.terms[stage][term] == pytest.approx(values, rel=2e-3, abs=2e-4), (label, term)
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    assert "--kernels fast" in report.read_text()
    shown = fast[next(iter(fast))]
    why = bench("why", shown.key[:12], *places[:6])
    assert "a run finds this record" in why.stdout, why.stdout + why.stderr
    again = bench("verify", shown.key[:12], *places[:6])
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.mark.slow
def test_their_training_on_text_is_another_artefact(bench, typed, tmp_path):
    rows = f"tinybert:{tiny.SHAPE}"
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(tiny.WORDS[number:] + tiny.WORDS[:number]) + "\n" for number in range(40)))
    for words in ((), ("--kernels", "fast")):
        done = bench(*typed, "--methods", rows, "--corpus", text, "--corpus-tokens", 2000, *words)
        assert done.returncode == 0, done.stderr
    usual, fast = (
        by_row(tmp_path / "r")[f"tinybert:ffn=24:heads=4:hidden=12:layers=2{end}"] for end in ("", " (fast kernels)")
    )
    begun = [record.artefacts["general_start"] for record in (usual, fast)]
    assert begun[0]["key"] != begun[1]["key"]
    assert begun[0]["weights"] != begun[1]["weights"]
    assert usual.cell.teacher == fast.cell.teacher
    one, other = (load_file(cache_root() / "starts" / of["key"][:24] / WEIGHTS) for of in begun)
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(other[name], tensor, atol=1e-4, rtol=1e-3)
