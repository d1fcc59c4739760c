"""Outputs of the teacher kept in a file: what is read back is what a pass gives, and trainings say that they read it."""

from __future__ import annotations

import json

import pytest
import squad_articles
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import methods
from bench import api
from bench.cache import cache_root
from bench.conformance.tiny_bench import Bench
from bench.errors import OK, CellError
from bench.make.task_data import OUTPUTS
from bench.progress import Progress
from bench.record.store import Store
from bench.run import carry_out
from bench.train.numerics import ComputeSettings
from bench.train.teacher_outputs import FORMATS, KeptTeacher, TeacherOutputs, write_outputs
from methods.core.models import forward
from methods.core.taps import LOGITS, hidden, pooled, scores, vectors

TAPS = (
    LOGITS
    | hidden(0, 2, 3)
    | scores(1, 3)
    | vectors(2)
    | pooled(3, "cls", "max")
    | pooled({1: 0.5, 2: 0.5}, "mean")
)
SMALL = f"{tiny.SHAPE}:start=random"


def teacher():
    return tiny.classifier(seed=5).eval()


def kept(folder, data, number_format="fp32", taps=TAPS, model=None):
    file = folder / OUTPUTS
    parts = write_outputs(file, model or teacher(), data, taps, number_format, ComputeSettings())
    return TeacherOutputs(file, json.loads(json.dumps(parts)), number_format, data)


def flat(value):
    return (
        torch.cat([one.flatten() for one in value]) if isinstance(value, tuple) else value.flatten()
    )


def masked(batch, tap, value):
    """Scores without what their padding holds; all else as it is."""
    if tap.kind != "scores":
        return flat(value)
    return flat(
        tuple(
            one * chunk.mask_nL[:, None, :, None] * chunk.mask_nL[:, None, None, :]
            for one, chunk in zip(value, batch.layout.chunks, strict=True)
        )
    )


@pytest.fixture(scope="module")
def data(teacher_folder):
    return tiny.encoded(teacher_folder, rows=45)


@pytest.fixture(scope="module", params=list(FORMATS))
def outputs(request, data, tmp_path_factory):
    return request.param, kept(tmp_path_factory.mktemp("outputs"), data, request.param)


@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.slow
def test_what_is_read_of_any_batch_is_what_a_pass_over_it_gives(outputs, data, drawn):
    number_format, file = outputs
    rows = drawn.draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=20))
    taps = frozenset(drawn.draw(st.sets(st.sampled_from(sorted(TAPS)), min_size=1)))
    batch = data.batch(rows)
    model = KeptTeacher(teacher(), file).eval()
    with torch.no_grad():
        read, passed = forward(model, batch, taps), forward(teacher(), batch, taps)
    assert set(read.values) == set(passed.values) == taps
    near = 2e-6 if number_format == "fp32" else 2e-3
    for tap in taps:
        assert [one.shape for one in read[tap]] == [one.shape for one in passed[tap]], tap
        ours, theirs = masked(batch, tap, read[tap]), masked(batch, tap, passed[tap])
        assert torch.allclose(ours, theirs, atol=near, rtol=near), tap
        assert ours.dtype == torch.float32


def test_start_and_end_logits_of_windows_are_kept_of_every_token(tmp_path):
    bench = Bench(methods.get("kd")(), 2, spans=True)
    model = KeptTeacher(
        bench.teacher, kept(tmp_path, bench.data, taps=LOGITS | hidden(2), model=bench.teacher)
    ).eval()
    for rows in ([0], [40, 3, 17, 2]):
        batch = bench.data.batch(rows)
        with torch.no_grad():
            read, passed = (
                model.outputs.answer(batch, LOGITS),
                forward(bench.teacher, batch, LOGITS),
            )
        assert (
            read.logits.shape == passed.logits.shape == (2 * len(rows), max(batch.layout.lengths))
        )
        assert torch.allclose(read.logits, passed.logits, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("length", [18, 150])
def test_a_run_of_questions_reads_a_file_of_about_the_planned_size(
    tmp_path, teacher_folder, length
):
    """Short texts, and texts of several windows."""
    data = squad_articles.write_tiny(tmp_path / "data", version="2.0", length=length)
    request = api.Request(
        methods=f"kd:{SMALL},tinybert:{SMALL}", tasks="squad_v2", data=str(data), teacher=str(teacher_folder),
        numbers=(("max_length", 32),), epochs=1.0, teacher_outputs="fp32", results=tmp_path / "r",
    )  # fmt: skip
    plan = api.plan(request)
    assert carry_out(plan, Progress()).exit_code == OK
    (file,) = cache_root().rglob(OUTPUTS)
    assert 0.5 < file.stat().st_size / plan.tasks[0].outputs.disk_bytes < 2
    students = [r for r in Store(request.results).records() if r.cell.method != "teacher"]
    assert [r.cell.teacher_outputs for r in students] == ["fp32"] * 2


def test_the_teacher_answers_by_itself_where_the_file_does_not_know(data, tmp_path):
    """Another tap, filled sequences, hidden tokens, dropout: each would be another answer."""
    from dataclasses import replace

    from bench.data.masking import pad_batch

    model = KeptTeacher(teacher(), kept(tmp_path, data, taps=LOGITS)).eval()
    batch = data.batch([3, 1])
    with torch.no_grad():
        assert torch.equal(forward(model, batch, hidden(1))[next(iter(hidden(1)))], forward(teacher(), batch, hidden(1)).hidden(1))  # fmt: skip
    assert not model.outputs.has(pad_batch(batch, data, 32), LOGITS)
    assert not model.outputs.has(replace(batch, masked_positions=torch.tensor([1])), LOGITS)
    assert model.outputs.has(batch, LOGITS)
    with torch.no_grad():
        noisy = forward(model.train(), batch, LOGITS).logits
    assert not torch.equal(noisy, model.outputs.answer(batch, LOGITS).logits)


def test_a_number_that_fp16_cannot_hold_is_refused(data, tmp_path):
    model = teacher()
    with torch.no_grad():
        model.classifier.bias.fill_(1e6)
    with pytest.raises(CellError, match="keep its outputs in fp32"):
        kept(tmp_path, data, "fp16", LOGITS, model)
    kept(tmp_path, data, "fp32", LOGITS, model)


def test_a_file_of_other_examples_is_refused(data, teacher_folder, tmp_path):
    file, other = tmp_path / OUTPUTS, tiny.encoded(teacher_folder, rows=44)
    taps = write_outputs(file, teacher(), data, TAPS, "fp32", ComputeSettings())
    with pytest.raises(CellError, match="other examples"):
        TeacherOutputs(file, taps, "fp32", other)


ROWS = f"finetune:{SMALL},kd:{SMALL},tinybert:{SMALL},microbert:{SMALL}"


@pytest.fixture
def typed(places):
    return ("run", "--tasks", "rte,sst2", "--epochs", 3, "--seeds", "0,1", *places)


def by_row(root):
    return {
        (r.cell.label, r.cell.tasks[0], r.cell.seed): r
        for r in Store(root).records()
        if r.cell.method != "teacher"
    }


@pytest.mark.slow
@pytest.mark.long
def test_a_run_reads_the_outputs_and_says_so(bench, typed, places, tmp_path):
    for words in ((), ("--teacher-outputs", "fp32")):
        done = bench(*typed, "--methods", ROWS, *words)
        assert done.returncode == 0, done.stderr
    found = by_row(tmp_path / "r")
    reading = {where: record for where, record in found.items() if record.cell.teacher_outputs}
    assert {label.split(":")[0] for label, *_ in reading} == {"kd", "tinybert", "microbert"}
    assert all(label.endswith(" (fp32 outputs)") for label, *_ in reading)
    for (label, task, seed), record in reading.items():
        plain = found[label.removesuffix(" (fp32 outputs)"), task, seed]
        assert record.key != plain.key
        for stage, curves in plain.terms.items():
            for term, values in curves.items():
                assert record.terms[stage][term] == pytest.approx(values, rel=2e-3, abs=2e-4), (
                    label,
                    term,
                )
        made = record.artefacts["teacher_outputs"]
        assert made["bytes"] > 0
        assert made["format"] == "fp32"
        assert 0 < record.train.flops_teacher <= plain.train.flops_teacher / 3 * (1 + 1e-9)
    assert (
        len({(task, record.train.flops_teacher) for (_, task, _), record in reading.items()}) == 2
    ), "one pass a task"
    assert len(list((cache_root() / "teacher-outputs").glob("*/outputs.bin"))) == 2
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    assert "--teacher-outputs fp32" in report.read_text()
    assert "nothing is broken" in bench("store", "verify", "--results", tmp_path / "r").stdout
    why = bench("show", "--why", record.key[:12], *places[:6])
    assert "a run finds this record" in why.stdout, why.stdout + why.stderr
    again = bench(*typed, "--methods", ROWS, "--teacher-outputs", "fp32")
    assert "plan: 18 cells: 18 there" in again.stderr
    assert by_row(tmp_path / "r").keys() == found.keys()


@pytest.mark.slow
def test_a_damaged_file_is_made_again(bench, places, tmp_path):
    rows = f"kd:{SMALL},pkd:layers=2"
    words = [
        "run",
        "--tasks",
        "rte",
        "--epochs",
        3,
        *places,
        "--methods",
        rows,
        "--teacher-outputs",
        "fp16",
    ]
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    before = {where: record.weights for where, record in by_row(tmp_path / "r").items()}
    (file,) = (cache_root() / "teacher-outputs").glob("*/outputs.bin")
    good = file.read_bytes()
    file.write_bytes(b"\0" * len(good))
    from bench import cache

    cache._CHECKED.clear()
    done = bench(*words, "--rerun")
    assert done.returncode == 0, done.stderr
    assert "is damaged and made again" in done.stdout + done.stderr
    assert file.read_bytes() == good
    assert {where: record.weights for where, record in by_row(tmp_path / "r").items()} == before


def test_too_large_a_file_is_bad_input(bench, typed):
    done = bench(
        *typed,
        "--methods",
        f"tinybert:{SMALL}",
        "--teacher-outputs",
        "fp32",
        "--teacher-outputs-limit",
        1e-6,
    )
    assert done.returncode == 2
    assert "--teacher-outputs-limit" in done.stderr
    assert "rte" in done.stderr
