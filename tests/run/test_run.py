"""Whole runs on a tiny teacher: what is written, what is taken up, what fails alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import torch
from transformers import BertForSequenceClassification

from bench import api
from bench.errors import CELLS_FAILED, OK, InputError
from bench.make import record as recording
from bench.progress import Progress
from bench.record.cell import record_key, train_key
from bench.run import Outcome, carry_out, check_disk
from bench.workflows import run as workflow

SPELLED = f"microbert:{tiny.SHAPE}"


@pytest.fixture
def request_(request_):
    usual = {"methods": f"finetune:{tiny.SHAPE},{SPELLED}", "epochs": None}
    return lambda **changes: request_(**usual | changes)


def records(request) -> dict[tuple[str, str, int], api.Record]:
    return {
        (r.cell.tasks[0], r.cell.label.split(":")[0], r.cell.seed): r
        for r in api.Store(request.results).records()
    }


def done(request) -> Outcome:
    """A run without its report."""
    return carry_out(api.plan(request), Progress())


@pytest.mark.slow
def test_a_run_leaves_records_and_a_report_and_the_second_one_does_nothing(request_, capfd):
    request = request_()
    outcome = api.run(request)
    assert outcome.exit_code == OK
    assert outcome.trained == 6
    found = records(request)
    assert set(found) == {
        (t, m, 0) for t in ("rte", "sst2") for m in ("teacher", "finetune", "microbert")
    }
    text = outcome.reports[0].read_text()
    assert "rte (acc)" in text
    assert "reappearance percent" in text
    files = {p: p.read_bytes() for p in request.results.rglob("*") if p.is_file()}
    capfd.readouterr()
    again = api.run(request)
    assert again.trained == 0
    assert "nothing to do" in capfd.readouterr().err
    assert {p: p.read_bytes() for p in request.results.rglob("*") if p.is_file()} == files


@pytest.mark.slow
def test_a_record_says_all_that_is_promised(request_):
    request = request_(tasks="rte")
    done(request)
    record = records(request)["rte", "microbert", 0]
    assert train_key(record.cell) == record.train_key
    assert record_key(record.cell) == record.key
    assert set(record.terms) == {"discriminator", "joint"}
    assert set(record.terms["joint"]) == {"hidn", "embd", "pred", "hard", "dis.adv", "dis.disc"}
    assert all(norm > 0 for stage in record.gradient_norms.values() for norm in stage.values())
    for terms in record.gradient_shares.values():
        assert all(1 <= len(shares) <= 4 for shares in terms.values())
        # another player's sum
        ours = [shares for name, shares in terms.items() if name != "dis.disc"]
        assert all(sum(at) == pytest.approx(1.0, abs=1e-3) for at in zip(*ours, strict=True))
    assert record.artefacts["general_start"]["key"] == record.cell.artefacts["general_start"]
    assert record.artefacts["general_start"]["beginning"] == "the cut-down teacher"
    assert record.artefacts["teacher"]["key"] == record.cell.teacher.key
    assert record.sizes.macs == pytest.approx(record.sizes.macs_closed_form, rel=0.01)
    assert record.env["torch"]
    arrays = api.Store(request.results).predictions(record)
    assert arrays["logits.validation"].dtype == np.float32
    assert arrays["logits.validation"].shape == (40, 2)
    accuracy = (arrays["logits.validation"].argmax(1) == arrays["labels.validation"]).mean()
    assert record.scores["validation"]["accuracy"] == pytest.approx(accuracy)
    assert len(set(arrays["examples.validation"].tolist())) == 40


def test_mnli_has_two_evaluation_sets_and_predictions_for_ax(request_):
    request = request_(tasks="mnli", methods=f"finetune:{tiny.SHAPE}:start=random")
    done(request)
    record = records(request)["mnli", "finetune", 0]
    assert set(record.scores) == {"matched", "mismatched"}
    assert record.predicted == ("ax",)
    arrays = api.Store(request.results).predictions(record)
    assert arrays["logits.ax"].shape == (40, 3)
    assert "labels.ax" not in arrays


def test_heads_that_cannot_be_compared_are_refused_before_a_teacher_is_tuned(request_):
    bad = "layers=2:hidden=9:heads=3:ffn=24:start=random"
    for row in (f"tinybert:{bad}", f"microbert:{bad}:attention=true"):
        with pytest.raises(
            InputError, match=r"has 3, the teacher 4: choose heads=4, or drop it \(:-attn\)"
        ):
            api.run(request_(tasks="rte", methods=row))
    plan = api.plan(request_(tasks="rte", methods=f"tinybert:{bad}:-attn,microbert:{bad}"))
    assert len(plan.todo) == 3


@pytest.mark.slow
def test_a_failing_cell_is_a_record_and_the_others_go_on(request_):
    """At such a temperature the loss is no number."""
    bad = f"kd:{tiny.SHAPE}:start=random:temperature=1e30"
    request = request_(tasks="rte", methods=f"{bad},finetune:{tiny.SHAPE}")
    outcome = api.run(request)
    assert outcome.exit_code == CELLS_FAILED
    found = records(request)
    assert found["rte", "finetune", 0].status == "ok"
    assert found["rte", "kd", 0].status == "failed"
    assert "nothing was trained yet" in found["rte", "kd", 0].error.message
    assert "nothing was trained yet" in outcome.reports[0].read_text()
    assert done(request).trained == 0, "failed cells wait for --retry-failed"
    assert done(request_(tasks="rte", methods=bad, retry_failed=True)).failures
    folder = api.Store(request.results).folder(found["rte", "kd", 0].cell)
    assert (folder / "attempt-1.json").is_file()
    assert (folder / "current").read_text().split()[0] == "attempt-2.json"


@pytest.mark.slow
def test_while_an_asked_cell_is_failed_the_same_command_does_not_end_well(bench, places):
    """Also with a further row to train; another command that does not ask for the cell ends well."""
    bad = f"kd:{tiny.SHAPE}:start=random:temperature=1e30"
    good = f"finetune:{tiny.SHAPE}:start=random"
    words = ("run", "--tasks", "rte", "--epochs", 1, *places)
    assert bench(*words, "--methods", bad).returncode == CELLS_FAILED
    again = bench(*words, "--methods", bad)
    assert again.returncode == CELLS_FAILED
    said = "nothing to do: 1 of 2 cells failed before, and the others have their records"
    assert said in again.stderr
    assert "--retry-failed runs failed cells again" in again.stderr
    assert again.stderr.count("nothing was trained yet") == 1
    more = bench(*words, "--methods", f"{bad},{good}")
    assert more.returncode == CELLS_FAILED
    assert more.stderr.count("nothing was trained yet") == 1
    alone = bench(*words, "--methods", good)
    assert alone.returncode == 0, alone.stderr
    assert "nothing to do: every cell has its record" in alone.stderr


class FolderGoes(Progress):
    """Somebody moves or removes a folder when this is said."""

    def __init__(self, said: str, act: Callable[[], object]) -> None:
        super().__init__()
        self.said = said
        self.act = act

    def say(self, text):
        if self.said in text:
            self.act()
        super().say(text)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["moved", "removed"])
def test_records_that_went_with_their_folder_are_missed(request_, tmp_path, how):
    """It happens before the last of three seeds: the first two and the teacher are gone."""
    request = request_(tasks="rte", methods=f"finetune:{tiny.SHAPE}:start=random", seeds=(0, 1, 2))

    def goes() -> None:
        if how == "moved":
            request.results.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(request.results)

    outcome = api.run(request, FolderGoes("seed 1: acc", goes))
    assert outcome.exit_code == CELLS_FAILED
    missed = [(failure.row.partition(":")[0], failure.seed) for failure in outcome.failures]
    assert missed == [("teacher", 0), ("finetune", 0), ("finetune", 1)]
    assert all(str(request.results) in failure.why for failure in outcome.failures)
    assert list(records(request)) == [("rte", "finetune", 2)]
    again = api.run(request)
    assert again.exit_code == 0
    assert again.trained == 3


@pytest.mark.slow
def test_a_folder_that_goes_at_the_very_end_leaves_no_result_and_no_traceback(
    request_, monkeypatch
):
    request = request_(tasks="rte", methods=f"finetune:{tiny.SHAPE}:start=random")
    carried_out = workflow.carry_out

    def and_gone(*given):
        outcome = carried_out(*given)
        shutil.rmtree(request.results)
        return outcome

    monkeypatch.setattr(workflow, "carry_out", and_gone)
    outcome = api.run(request)
    assert outcome.exit_code == CELLS_FAILED
    assert len(outcome.failures) == 2
    assert outcome.reports == []


@pytest.mark.slow
def test_predictions_that_become_infinite_fail_their_cell(request_, monkeypatch):
    """As those of a model that computes in 64 bits; the other rows go on."""
    known = recording.predict

    def predict(model, encoded, *given):
        logits = known(model, encoded, *given)
        if getattr(model.config, "num_hidden_layers", 0) == 1:
            logits = np.full_like(logits, np.inf)
        return logits

    monkeypatch.setattr(recording, "predict", predict)
    one_layer = f"kd:layers=1:{tiny.SHAPE.partition(':')[2]}:start=random"
    request = request_(tasks="rte", methods=f"{one_layer},finetune:{tiny.SHAPE}:start=random")
    outcome = api.run(request)
    assert outcome.exit_code == CELLS_FAILED
    (failure,) = outcome.failures
    assert "rte validation: some predictions are no finite 32-bit numbers" in failure.why


def test_an_interrupted_rerun_leaves_what_was_there(request_, monkeypatch):
    request = request_(tasks="rte", methods=f"finetune:{tiny.SHAPE}:start=random")
    done(request)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("bench.make.students.train_tasks", interrupt)
    with pytest.raises(KeyboardInterrupt):
        done(replace(request, rerun=True))
    assert records(request)["rte", "finetune", 0].status == "ok"


def test_a_checkpoint_without_a_classification_head_is_no_row(request_, teacher_folder):
    with pytest.raises(InputError, match="no classification head"):
        api.plan(request_(methods=f"checkpoint:{teacher_folder}", tasks="rte"))


def named(folder, labels):
    """A finished classifier with these names of its labels, in the order of its head."""
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = dict(enumerate(labels))
    config["label2id"] = {name: i for i, name in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_a_teacher_with_other_labels_is_refused(request_, tmp_path):
    folder = tiny.save_teacher(tmp_path / "done", BertForSequenceClassification)
    with pytest.raises(InputError, match="other label names"):
        api.plan(request_(tasks="rte", teacher=named(folder, ["a", "b"])))


@pytest.mark.slow
def test_a_teacher_whose_labels_have_another_order_teaches_the_same(request_, tmp_path):
    """Its head is put into the task's order, also where a student begins with it: the same weights to the bit."""
    weights = []
    for labels in (["entailment", "not_entailment"], ["not_entailment", "entailment"]):
        folder = tiny.save_teacher(tmp_path / labels[0], BertForSequenceClassification)
        model = BertForSequenceClassification.from_pretrained(folder)
        with torch.no_grad():
            model.classifier.weight[0] += 1.0
            if weights:
                model.classifier.weight.copy_(model.classifier.weight.flip(0))
                model.classifier.bias.copy_(model.classifier.bias.flip(0))
        model.save_pretrained(folder)
        request = request_(methods="pkd:layers=2,theseus:layers=1", tasks="rte", seeds=(0,))
        request = replace(
            request, teacher=named(folder, labels), results=tmp_path / labels[0] / "r"
        )
        done(request)
        weights.append({row: record.weights for (_, row, _), record in records(request).items()})
    assert weights[0] == weights[1]
    assert len(weights[0]) == 3


def test_a_pre_training_alone_that_fails_says_so(request_, monkeypatch, tmp_path):
    (tmp_path / "text.txt").write_text("the cat runs in the house .\n" * 30)

    def fail(*args, **kwargs):
        raise ValueError("planted")

    monkeypatch.setattr("bench.make.given.train_task", fail)
    request = request_(
        methods=f"kd:{tiny.SHAPE}",
        tasks="rte",
        corpus=(str(tmp_path / "text.txt"),),
        corpus_tokens=300,
    )
    outcome = api.run(request, only_pretraining=True)
    assert outcome.exit_code == CELLS_FAILED
    assert "planted" in outcome.failures[0].why


@pytest.mark.parametrize(
    "change, message",
    [
        ({"teacher": "/nowhere"}, "no such folder"),
        ({"teacher": "nobody/nothing"}, "hub did not give it"),
        ({"tasks": "cola"}, "has no cola"),
        ({"methods": "checkpoint:"}, "add the folder"),
        ({"epochs": 1.0, "recipe": "paper"}, "each paper's schedule"),
        ({"methods": f"microbert:{tiny.SHAPE}:-hidn:-embd:-hard:-pred:-dis"}, "keep at least one"),
        ({"device": "cuda:99"}, "--device"),
        ({"corpus": ("/nowhere.txt",)}, "no such file"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else None,
)
def test_bad_requests_write_nothing(request_, change, message):
    request = request_(**change)
    with pytest.raises(InputError, match=message):
        api.run(request)
    assert not list(request.results.rglob("*.json"))


def test_long_plans_ask_first(request_, monkeypatch):
    monkeypatch.setattr("bench.run.ASK_ABOVE_SECONDS", -1)
    with pytest.raises(InputError, match="add --yes"):
        api.run(request_(tasks="rte"))
    with pytest.raises(InputError, match="not started"):
        api.run(request_(tasks="rte"), confirm=lambda question: False)


def test_a_full_disk_is_found_before_anything_starts(request_, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(InputError, match=r"has 0 MB free, this plan needs about \d\d\d MB"):
        api.run(request_(tasks="rte"))


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="needs a folder that nobody can write to"
)
@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("results", "/proc"),
        ("reports", "/proc"),
        ("save_students", "/proc"),
        ("save_students", f"{__file__}/students"),
    ],
)
def test_a_folder_that_cannot_be_written_is_found_before_anything_starts(
    request_, monkeypatch, what, where
):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10**18})())
    with pytest.raises(
        InputError, match=r"cannot be written to /proc|Not a directory; choose another folder"
    ):
        check_disk(SimpleNamespace(request=request_(**{what: Path(where)}), disk_bytes=0))
