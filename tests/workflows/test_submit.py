"""GLUE's submission: what is written is what the server takes, and what it would refuse is named."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
import tiny
import torch
from transformers import BertForSequenceClassification

from bench.data.tasks import GLUE
from bench.errors import BAD_INPUT, CHECK_FAILED, OK
from bench.workflows import submit as workflow

ROWS = 12


@pytest.fixture
def test_sets(tmp_path, monkeypatch):
    """Test sets of twelve unlabelled examples in GLUE's layout."""
    import pandas

    monkeypatch.setattr(
        workflow, "FILES", {name: file._replace(rows=ROWS) for name, file in workflow.FILES.items()}
    )
    for number, file in enumerate(workflow.FILES.values()):
        task = GLUE[file.task]
        split = tiny.split(ROWS, 2, len(task.columns) == 2, seed=number)
        columns = {task.columns[0]: split.first, "label": [-1] * ROWS, "idx": split.ids}
        columns |= {task.columns[1]: split.second} if len(task.columns) == 2 else {}
        place = tmp_path / "glue" / file.test.config / f"{file.test.split}-00000-of-00001.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pandas.DataFrame(columns).to_parquet(place, index=False)
    return tmp_path / "glue"


@pytest.fixture
def models(tmp_path):
    for name in ("rte", "mnli", "stsb"):
        tiny.save_teacher(
            tmp_path / "models" / name,
            BertForSequenceClassification,
            num_labels=GLUE[name].num_labels,
        )
    return tmp_path / "models"


def test_the_files_are_as_the_server_wants_them(bench, tmp_path, test_sets, models):
    done = bench(
        "export",
        "--submit",
        models,
        "--to",
        tmp_path / "s",
        "--data",
        test_sets,
        "--constant-rest",
        "--device",
        "cpu",
    )
    assert done.returncode == OK, done.stderr
    with zipfile.ZipFile(tmp_path / "s" / "submission.zip") as archive:
        assert archive.namelist() == list(workflow.FILES)
    for name, file in workflow.FILES.items():
        header, *lines = (tmp_path / "s" / name).read_text().splitlines()
        ids, answers = zip(*(line.split("\t") for line in lines), strict=True)
        assert (header, ids) == ("index\tprediction", tuple(map(str, range(ROWS)))), name
        if file.task == "stsb":
            assert all(0 <= float(answer) <= 5 for answer in answers)
        else:
            assert set(answers) <= set("01" if file.in_codes else GLUE[file.task].labels), name
    assert bench("export", "--submit", tmp_path / "s" / "submission.zip").returncode == OK


def test_a_model_whose_labels_have_another_order_answers_by_their_names(
    bench, tmp_path, test_sets, models
):
    model = BertForSequenceClassification.from_pretrained(models / "rte")
    model.classifier.weight.data.zero_()
    model.classifier.bias.data = torch.tensor([5.0, -5.0])
    model.config.id2label = {0: "not_entailment", 1: "entailment"}
    model.config.label2id = {"not_entailment": 0, "entailment": 1}
    model.save_pretrained(models / "rte")
    done = bench(
        "export",
        "--submit",
        models,
        "--to",
        tmp_path / "s",
        "--data",
        test_sets,
        "--constant-rest",
        "--device",
        "cpu",
    )
    assert done.returncode == OK, done.stderr
    _, *lines = (tmp_path / "s" / "RTE.tsv").read_text().splitlines()
    assert {line.split("\t")[1] for line in lines} == {"not_entailment"}


def test_a_dropped_line_is_named(bench, tmp_path, test_sets, models):
    bench(
        "export",
        "--submit",
        models,
        "--to",
        tmp_path / "s",
        "--data",
        test_sets,
        "--constant-rest",
        "--device",
        "cpu",
    )
    whole = {file: (tmp_path / "s" / file).read_text() for file in workflow.FILES}
    dropped = "".join(
        line for line in whole["RTE.tsv"].splitlines(True) if not line.startswith("7\t")
    )
    damaged = {
        "RTE.tsv": (dropped, "id 7"),
        "QQP.tsv": (whole["QQP.tsv"].replace("\n3\t0", "\n3\tno"), "line 5"),
        "MRPC.tsv": (whole["MRPC.tsv"].replace("4\t0\n5\t0", "5\t0\n4\t0"), "id 5 stands where 4"),
    }
    for name, (text, said) in damaged.items():
        with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
            for file in whole:
                archive.writestr(file, text if file == name else whole[file])
        done = bench("export", "--submit", tmp_path / "bad.zip")
        assert done.returncode == CHECK_FAILED
        assert done.stdout.startswith(name)
        assert said in done.stdout
    with zipfile.ZipFile(tmp_path / "few.zip", "w") as archive:
        archive.writestr("RTE.tsv", whole["RTE.tsv"])
    assert "CoLA.tsv is not there" in bench("export", "--submit", tmp_path / "few.zip").stdout


def test_a_missing_or_doubtful_model_is_refused(bench, tmp_path, test_sets, models):
    done = bench("export", "--submit", models, "--to", tmp_path / "s", "--data", test_sets)
    assert (done.returncode, (tmp_path / "s").exists()) == (BAD_INPUT, False)
    assert "cola" in done.stderr
    assert "rte" not in done.stderr
    tiny.save_teacher(tmp_path / "more" / "rte" / "kd-seed-1-0a", BertForSequenceClassification)
    tiny.save_teacher(tmp_path / "more" / "rte" / "kd-seed-2-0b", BertForSequenceClassification)
    twice = [
        tmp_path / "more",
        "--to",
        tmp_path / "s",
        "--data",
        test_sets,
        "--constant-rest",
        "--device",
        "cpu",
    ]
    assert "seed 1" in bench("export", "--submit", *twice).stderr
    assert bench("export", "--submit", *twice, "--seed", 2).returncode == OK


def test_test_sets_that_are_cut_are_refused(bench, tmp_path, test_sets, models, monkeypatch):
    files = {name: file._replace(rows=ROWS + 1) for name, file in workflow.FILES.items()}
    monkeypatch.setattr(workflow, "FILES", files)
    done = bench(
        "export",
        "--submit",
        models,
        "--to",
        tmp_path / "s",
        "--data",
        test_sets,
        "--constant-rest",
        "--device",
        "cpu",
    )
    assert (done.returncode, (tmp_path / "s").exists()) == (BAD_INPUT, False)
    assert f"id {ROWS}" in done.stderr


def test_diagnostics_by_category(tmp_path):
    """A category's examples are those whose column names it, alone or beside others."""
    names = np.array(GLUE["mnli"].labels)
    true = np.arange(9) % 3
    lines = ["\t".join((*workflow.AX_CATEGORIES, "Label"))]
    lines += [
        f"{'Negation;Factivity' if i < 6 else ''}\t\t\t{'World' * (i > 3)}\t{names[c]}"
        for i, c in enumerate(true)
    ]
    (tmp_path / "full.tsv").write_text("\n".join(lines))
    answers = np.where(np.arange(9) < 6, true, 0)
    (tmp_path / "AX.tsv").write_text(
        "\n".join(["index\tprediction", *(f"{i}\t{names[c]}" for i, c in enumerate(answers))])
    )
    scores = workflow.diagnostics(tmp_path / "AX.tsv", tmp_path / "full.tsv")
    table = {(score.category, score.kind): score for score in scores}
    assert table["Lexical Semantics", "Factivity"].matthews == 1.0
    assert table["all", ""].examples == 9
    assert table["Lexical Semantics", ""].examples == 6
    assert table["Knowledge", "World"].examples == 5
    assert ("Logic", "") not in table


def archive_of(folder, names, change=None):
    """A zip archive with these files; ``change`` is done to its bytes."""
    file = folder / "own.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in names.items():
            archive.writestr(name, text)
    if change is not None:
        file.write_bytes(change(bytearray(file.read_bytes())))
    return file


def with_password(data: bytearray) -> bytes:
    """The flag of a password set, in the file's own header and in the list of files."""
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def of_another_compression(data: bytearray) -> bytes:
    data[8] = 97
    data[data.index(b"PK\x01\x02") + 10] = 97
    return bytes(data)


def damaged(data: bytearray) -> bytes:
    """Bytes of the compressed text."""
    data[40:44] = b"\xff" * 4
    return bytes(data)


@pytest.mark.parametrize("change", [with_password, of_another_compression, damaged])
def test_an_archive_that_cannot_be_unpacked_is_bad_input(bench, tmp_path, change):
    archive = archive_of(tmp_path, {"RTE.tsv": "index\tprediction\n" * 99}, change)
    answer = bench("export", "--submit", archive)
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1
    assert "cannot be read as a zip archive" in answer.stderr


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(bench, tmp_path):
    archive = archive_of(tmp_path, {"RTE.tsv": "0" * 60_000_000})
    assert archive.stat().st_size < 100_000
    answer = bench("export", "--submit", archive)
    assert answer.returncode == 2
    assert "unpacks to 60,000,000 bytes" in answer.stderr


@pytest.mark.parametrize("index", ["9" * 5000, "٣", "-1", ""])
def test_an_id_that_the_server_cannot_read_is_named(tmp_path, index):
    archive = archive_of(tmp_path, {"RTE.tsv": f"index\tprediction\n{index}\tentailment\n"})
    (why,) = (fault for fault in workflow.faults(archive) if fault.startswith("RTE.tsv: "))
    assert "line 2 is" in why


def test_faults_come_in_the_order_of_the_servers_files(tmp_path):
    archive = archive_of(tmp_path, dict.fromkeys(reversed(workflow.FILES), "wrong"))
    assert [fault.partition(":")[0] for fault in workflow.faults(archive)] == list(workflow.FILES)
