"""A student leaves as a folder that works elsewhere, with its record's own answers; a wrong one does not leave unnoticed."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas
import pytest
import squad_articles
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from bench import api
from bench.measure.backends import opened, runner, write_onnx
from bench.plan.spelling import parse_one
from bench.plan.untrained import untrained
from bench.progress import Progress
from bench.record.cell import IN_8_BITS
from bench.record.store import Store
from bench.run import carry_out
from methods.core.models import inputs_of

SHOWN = ('"a text"', '"a second one"', '"a question"', '"the text that has the answer"')
FORMATS = [
    "hf",
    pytest.param("onnx", marks=pytest.mark.slow),
    pytest.param("onnx-int8", marks=pytest.mark.slow),
]


def run_page(folder, *texts):
    """What the program of a folder's page prints, and all that it has made, where texts stand for those that it has."""
    body = (folder / "README.md").read_text().partition("\n---\n")[2]  # behind what the hub reads
    code = "\n".join(line[4:] for line in body.splitlines() if line.startswith("    "))
    typed = [name for name in SHOWN if name in code]
    for name, text in zip(typed, texts, strict=False):
        code = code.replace(name, repr(text))
    printed: list = []
    made = {"print": printed.append}
    exec(code.replace("THIS-FOLDER", str(folder)), made)  # noqa: S102
    return printed, made


def train(**options):
    """A run without its report."""
    assert carry_out(api.plan(api.Request(**options, threads=1)), Progress()).exit_code == 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory, glue_folder, teacher_folder):
    """Options that name a store, its one student's record, and the folder that was saved of it."""
    place = tmp_path_factory.mktemp("trained")
    typed = ("--data", glue_folder, "--teacher", teacher_folder, "--results", place / "r")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERT_BENCH_CACHE", str(place / "cache"))
        named = {"data": str(glue_folder), "teacher": str(teacher_folder), "results": place / "r"}
        train(
            methods=f"tinybert:{tiny.SHAPE}:start=random",
            tasks="rte",
            save_students=place / "s",
            **named,
        )
    (record,) = (r for r in Store(place / "r").records() if r.cell.method == "tinybert")
    (config,) = (place / "s").rglob("tinybert*/config.json")
    return typed, record, config.parent


@pytest.mark.parametrize("form", FORMATS)
def test_an_exported_student_answers_as_its_record(bench, trained, tmp_path, form):
    if form != "hf":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnx")
    typed, record, saved = trained
    to, file = tmp_path / "student", tmp_path / "answer.json"
    done = bench(
        "export",
        record.key[:10],
        "--to",
        to,
        "--format",
        form,
        "--from",
        saved,
        *typed,
        "--json",
        file,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    compared = json.loads(file.read_text())["sets"]["validation"]
    assert compared["examples"] == 40
    assert form == "onnx-int8" or (
        compared["changed"] == 0 and compared["largest_difference"] < 1e-5
    )
    assert {"config.json", "tokenizer.json", "README.md"} <= {path.name for path in to.iterdir()}
    assert (to / "model.safetensors").is_file() == (form == "hf")
    page = (to / "README.md").read_text()
    assert ("from_pretrained" in page) == ("checkpoint:THIS-FOLDER" in page) == (form == "hf")
    again = bench("export", record.key[:10], "--to", to, *typed)
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.parametrize("routing", ["hash", "token", "sentence"])
def test_experts_are_a_graph_that_routes_tokens_itself(routing, tmp_path):
    """For any number of sequences and tokens, with [PAD], and where an expert has no token."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    (model,) = untrained(
        parse_one(f"moebert:routing={routing}").method, tiny.config(), 2, "cpu"
    ).values()
    model.eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    names = inputs_of(model)
    write_onnx(model, tmp_path / "model.onnx", names)
    graph = opened(tmp_path / "model.onnx", "onnx", 1, names)
    usual = runner(model, "eager", torch.device("cpu"), torch.float32, 1, names)
    ids = torch.randint(5, tiny.config().vocab_size, (3, 20))
    filled = torch.where(torch.arange(20) < torch.tensor([[20], [7], [1]]), ids, 0)
    for given in (ids[:1, :9], filled, ids[:2, :1].expand(2, 6)):
        inputs = given, (given != 0).long(), torch.zeros_like(given)
        torch.testing.assert_close(graph(*inputs), usual(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_student_without_kinds_of_segments_has_a_graph_of_two_inputs(bench, trained, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    typed, _, saved = trained
    named = {"data": str(typed[1]), "teacher": str(typed[3]), "results": typed[5]}
    train(methods="distilbert", tasks="rte", save_students=saved.parents[2], **named)
    (record,) = (r for r in Store(typed[5]).records() if r.cell.method == "distilbert")
    (kept,) = saved.parent.glob("distilbert*")
    done = bench(
        "export", record.key, "--to", tmp_path / "out", "--format", "onnx", "--from", kept, *typed
    )
    assert done.returncode == 0, done.stdout + done.stderr
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    assert [each.name for each in session.get_inputs()] == ["input_ids", "attention_mask"]
    assert [each.shape for each in session.get_outputs()] == [["batch", 2]]


@pytest.mark.slow
def test_without_its_folder_a_student_is_trained_again(bench, trained, tmp_path):
    typed, record, _ = trained
    done = bench("export", record.key[:10], "--to", tmp_path / "student", *typed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of 40 predictions changed" in done.stdout


def exported(bench, tmp_path, glue_folder, teacher_folder, row, task, *more):
    """Train a row, and export it from the folder that the run saved."""
    named = {"data": str(glue_folder), "teacher": str(teacher_folder), "results": tmp_path / "r"}
    train(methods=row, tasks=task, save_students=tmp_path / "s", **named)
    (record,) = (r for r in Store(tmp_path / "r").records() if r.cell.method == row.split(":")[0])
    (config,) = (tmp_path / "s").rglob("[!t]*-seed-*/config.json")
    typed = [text for name, value in named.items() for text in (f"--{name}", value)] + [
        "--from",
        config.parent,
    ]
    done = bench("export", record.key[:10], "--to", tmp_path / "e", *typed, *more)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_exported_student_that_reads_words_is_asked_words(
    bench, tmp_path, glue_folder, teacher_folder
):
    file = tmp_path / "answer.json"
    exported(bench, tmp_path, glue_folder, teacher_folder, "bilstm", "rte", "--json", file)
    assert json.loads(file.read_text())["sets"]["validation"]["largest_difference"] < 1e-5


@pytest.mark.slow
def test_the_page_of_an_onnx_folder_of_a_regression_shows_a_number(
    bench, tmp_path, glue_folder, teacher_folder
):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    exported(
        bench,
        tmp_path,
        glue_folder,
        teacher_folder,
        "finetune:start=random",
        "stsb",
        "--format",
        "onnx",
    )
    ((shown,), _) = run_page(tmp_path / "e")
    assert float(shown) == shown


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_a_student_that_answers_questions_leaves_with_its_answers(
    bench, tmp_path, teacher_folder, version
):
    """In ONNX, rounded to 8 bits in a row of its own, and on every backend; texts are longer than a window."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    data = squad_articles.write_tiny(tmp_path / "data", version=version, length=60)
    task = "squad" if version == "1.1" else "squad_v2"
    named = {"data": str(data), "teacher": str(teacher_folder), "results": tmp_path / "r"}
    places = [text for name, value in named.items() for text in (f"--{name}", value)]
    row = f"kd:{tiny.SHAPE}:start=random"
    numbers = (("max_length", 48),)
    train(
        methods=f"{row},{row}+int8",
        tasks=task,
        numbers=numbers,
        save_students=tmp_path / "s",
        **named,
    )
    records = {r.point: r for r in Store(tmp_path / "r").records() if r.cell.method == "kd"}
    (config,) = (tmp_path / "s").rglob("kd*/config.json")
    for point, form in (("", "hf"), ("", "onnx"), (IN_8_BITS, "onnx-int8")):
        to, file = tmp_path / form, tmp_path / "answer.json"
        done = bench("export", records[point].key, "--to", to, "--format", form, "--from", config.parent, *places,
                     "--json", file)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        compared = json.loads(file.read_text())["sets"]["validation"]
        assert (compared["examples"], compared["changed"]) == (24, 0)
    done = bench("speed", "--models", config.parent, "--tasks", task, "--data", data, "--backends", "sdpa,onnx", "--rounds", 6,
                 "--json", file)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(r["changed"], r["examples"]) for r in json.loads(file.read_text())["models"]] == [
        (0, 24)
    ] * 3

    wrong = load_file(config.parent / "model.safetensors")
    wrong["qa_outputs.weight"] = -wrong["qa_outputs.weight"]
    save_file(wrong, config.parent / "model.safetensors", {"format": "pt"})
    for point, form in (("", "hf"), ("", "onnx-int8"), (IN_8_BITS, "onnx-int8")):
        words = (
            "export",
            records[point].key,
            "--to",
            tmp_path / "w",
            "--format",
            form,
            "--from",
            config.parent,
        )
        done = bench(*words, *places)
        assert done.returncode == 1
        assert "other weights than the record's" in done.stdout
    assert not (tmp_path / "w").exists()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_the_programs_of_the_pages_give_the_records_answers(
    bench, tmp_path, teacher_folder, version
):
    """To questions about texts that fit into one window, of a teacher whose tokenizer pads and cuts to a length of its own."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    teacher = shutil.copytree(teacher_folder, tmp_path / "teacher")
    tokenizer = AutoTokenizer.from_pretrained(teacher)
    tokenizer.backend_tokenizer.enable_padding(length=128)
    tokenizer.backend_tokenizer.enable_truncation(128)
    tokenizer.save_pretrained(teacher)
    data = squad_articles.write_tiny(tmp_path / "data", version=version, length=9)
    named = {"data": str(data), "teacher": str(teacher), "results": tmp_path / "r"}
    task = "squad" if version == "1.1" else "squad_v2"
    row, numbers = f"kd:{tiny.SHAPE}:start=random", (("max_length", 48),)
    train(methods=row, tasks=task, numbers=numbers, save_students=tmp_path / "s", **named)
    store = Store(tmp_path / "r")
    (record,) = (r for r in store.records() if r.cell.method == "kd")
    (config,) = (tmp_path / "s").rglob("kd*/config.json")
    kept = json.loads((config.parent / "tokenizer.json").read_text())
    assert (kept["padding"], kept["truncation"]) == (None, None)
    places = [text for name, value in named.items() for text in (f"--{name}", value)]
    words = (
        "export",
        record.key,
        "--to",
        tmp_path / "onnx",
        "--format",
        "onnx",
        "--from",
        tmp_path / "s",
        *places,
    )
    done = bench(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scored in windows" in (config.parent / "README.md").read_text()

    (body,) = json.loads((data / f"dev-v{version}.json").read_text())["data"]
    answers = store.predictions(record)["logits.validation"]
    for paragraph, (*_, margin, first, last) in list(zip(body["paragraphs"], answers, strict=True))[
        :8
    ]:
        question, text = paragraph["qas"][0]["question"], paragraph["context"]
        answer = "" if margin > 0 else text[int(first) : int(last)]
        for folder in (config.parent, tmp_path / "onnx"):
            assert run_page(folder, question, text)[0] == [answer]
    long = [
        run_page(folder, "where is the cat ? " * 200, text)[0]
        for folder in (config.parent, tmp_path / "onnx")
    ]
    assert long[0] == long[1]


@pytest.mark.slow
@pytest.mark.parametrize("truncation", ["tail", "both"])
def test_the_programs_of_the_pages_cut_long_texts_as_the_record_does(
    bench, tmp_path, teacher_folder, truncation
):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    drawn = np.random.default_rng(0)
    texts = [" ".join(drawn.choice(tiny.WORDS, length)) for length in [70, 30, 38, 39, *[60] * 20]]
    rows = pandas.DataFrame({"body": texts, "stars": ["no", "yes"] * 12})
    rows[:8].to_csv(tmp_path / "v.csv", index=False)
    rows[8:].to_csv(tmp_path / "t.csv", index=False)
    file = tmp_path / "long.toml"
    file.write_text(
        'name = "long"\ntrain = "t.csv"\nvalidation = "v.csv"\ntext = ["body"]\nlabels = ["no", "yes"]\n'
        f'label = "stars"\nmetrics = ["accuracy"]\nmax_length = 40\ntruncation = "{truncation}"\n'
    )
    named = {"tasks": str(file), "teacher": str(teacher_folder), "results": tmp_path / "r"}
    # its logits are another text's by more than rounding
    row = f"kd:{tiny.SHAPE}:start=random:pace=100"
    train(methods=row, numbers=(("batch_size", 4),), save_students=tmp_path / "s", **named)
    store = Store(tmp_path / "r")
    (record,) = (r for r in store.records() if r.cell.method == "kd")
    (config,) = (tmp_path / "s").rglob("kd*/config.json")
    places = [text for name, value in named.items() for text in (f"--{name}", value)]
    words = (
        "export",
        record.key,
        "--to",
        tmp_path / "onnx",
        "--format",
        "onnx",
        "--from",
        tmp_path / "s",
        *places,
    )
    done = bench(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    for text, logits in zip(texts[:8], store.predictions(record)["logits.validation"], strict=True):
        opened_here, graph = (
            run_page(folder, text)[1]["logits"] for folder in (config.parent, tmp_path / "onnx")
        )
        assert opened_here[0].tolist() == pytest.approx(logits.tolist(), abs=1e-6)
        assert graph.tolist() == pytest.approx(logits.tolist(), abs=1e-6)


def test_only_students_that_are_not_in_the_folder_are_called_unsaved(trained, tmp_path, capsys):
    typed, record, saved = trained
    named = {"data": str(typed[1]), "teacher": str(typed[3]), "results": typed[5]}
    for place, is_said in ((saved.parents[2], False), (tmp_path / "other", True)):
        train(methods=record.cell.label, tasks="rte", save_students=place, **named)
        assert ("not saved, because trained before" in capsys.readouterr().err) == is_said


def test_the_program_of_a_card_reads_both_texts_of_a_pair(trained, glue_folder):
    typed, record, saved = trained
    rows = pandas.read_parquet(glue_folder / "rte" / "validation-00000-of-00001.parquet")
    logits = Store(typed[5]).predictions(record)["logits.validation"]
    answer = run_page(saved, rows.sentence1[0], rows.sentence2[0])[1]["logits"]
    assert answer[0].tolist() == pytest.approx(logits[0].tolist(), abs=1e-7)
    assert "named by the last part of their path" in (saved / "README.md").read_text()


def test_a_student_is_found_below_the_folder_that_a_run_saved_in(bench, trained, tmp_path):
    typed, record, saved = trained
    done = bench(
        "export", record.key[:10], "--to", tmp_path / "t", "--from", saved.parents[2], *typed
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_training_that_fails_when_it_is_repeated_is_one_line(
    bench, trained, tmp_path, monkeypatch
):
    def step(*given):
        raise MemoryError("no room")

    monkeypatch.setattr("bench.train.student_trainer.StudentTrainer.step", step)
    typed, record, _ = trained
    done = bench("export", record.key[:10], "--to", tmp_path / "student", *typed)
    assert done.returncode == 2
    assert "no room" in done.stderr
    assert not list(tmp_path.iterdir())


def test_weights_that_are_not_the_records_do_not_leave(bench, trained, tmp_path):
    typed, record, saved = trained
    other = tmp_path / "other"
    shutil.copytree(saved, other)
    weights = load_file(other / "model.safetensors")
    name = next(
        name
        for name, value in weights.items()
        if value.ndim == 2 and value.shape[0] == value.shape[1]
    )
    weights[name] = weights[name].T.contiguous()
    save_file(weights, other / "model.safetensors", {"format": "pt"})
    done = bench("export", record.key[:10], "--to", tmp_path / "student", "--from", other, *typed)
    assert done.returncode == 1
    assert "other weights than the record's" in done.stdout
    assert not (tmp_path / "student").exists()


@pytest.mark.slow
def test_a_wrong_graph_is_noticed(bench, trained, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from bench.measure import backends

    right = backends.write_onnx

    def wrong(model, *given):
        classifier = model.classifier
        classifier.weight.data = -classifier.weight.data
        right(model, *given)

    monkeypatch.setattr(backends, "write_onnx", wrong)
    typed, record, saved = trained
    done = bench(
        "export",
        record.key[:10],
        "--to",
        tmp_path / "s",
        "--format",
        "onnx",
        "--from",
        saved,
        *typed,
    )
    assert done.returncode == 1


def test_a_fine_tuned_teacher_leaves_too(bench, trained, tmp_path):
    typed, _, _ = trained
    (teacher,) = (r for r in Store(typed[5]).records() if r.cell.method == "teacher")
    done = bench("export", teacher.key[:10], "--to", tmp_path / "t", *typed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of 40 predictions changed" in done.stdout


def test_a_strange_folder_is_bad_input(bench, trained, tmp_path, teacher_folder):
    typed, record, _ = trained
    done = bench(
        "export", record.key[:10], "--to", tmp_path / "t", "--from", teacher_folder, *typed
    )
    assert done.returncode == 2
    assert "neither it nor a folder below it is the student of record" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_card_is_one_that_the_hub_reads(bench, trained, tmp_path):
    """Its scores with intervals, and all that it says of them."""
    from huggingface_hub import ModelCard

    typed, record, saved = trained
    card = ModelCard.load(saved / "README.md")
    (result,) = card.data.eval_results
    assert result.metric_value == pytest.approx(record.scores["validation"]["accuracy"], abs=1e-4)
    assert (result.dataset_config, result.dataset_split, result.metric_type) == (
        "rte",
        "validation",
        "accuracy",
    )
    assert "bert-bench" in card.data.tags
    assert "95 % interval over examples" in card.text
    assert record.key in card.text
    assert not (saved / ".eval_results").exists(), "no examples of the hub's GLUE"
    pytest.importorskip("onnxruntime")
    bench(
        "export",
        record.key[:10],
        "--to",
        tmp_path / "onnx",
        "--format",
        "onnx",
        "--from",
        saved,
        *typed,
    )
    assert (
        ModelCard.load(tmp_path / "onnx" / "README.md").data.eval_results == card.data.eval_results
    )


def test_results_on_the_hubs_glue_are_entries_of_its_leaderboard(trained, tmp_path):
    """The folder of a student of the hub's data, as a run writes it."""
    from huggingface_hub import ModelCard, parse_eval_result_entries
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from yaml import safe_load

    from bench.data.tasks import GLUE
    from bench.make.saved_student import export_student

    _, record, saved = trained
    data = record.cell.data.model_copy(update={"slug": "glue-hub"})
    hub = {"hub": {"nyu-mll/glue": "a" * 40}}
    record = record.model_copy(
        update={"env": record.env | hub, "cell": record.cell.model_copy(update={"data": data})}
    )
    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(saved),
        AutoTokenizer.from_pretrained(saved),
    )
    folder = export_student(tmp_path, model, tokenizer, record, GLUE["rte"])
    (entry,) = parse_eval_result_entries(
        safe_load((folder / ".eval_results" / "glue.yaml").read_text())
    )
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == (
        "nyu-mll/glue",
        "rte/validation",
        "a" * 40,
    )
    assert entry.value == pytest.approx(100 * record.scores["validation"]["accuracy"], abs=0.01)
    assert ModelCard.load(folder / "README.md").data.datasets == "nyu-mll/glue"


def test_a_folder_is_sent_to_the_hub_only_when_that_is_asked(bench, trained, tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(
        "huggingface_hub.HfApi.create_repo",
        lambda self, name, **how: sent.append((name, how["private"])),
    )
    monkeypatch.setattr(
        "huggingface_hub.HfApi.upload_folder",
        lambda self, repo_id, folder_path: sent.append((repo_id, folder_path)),
    )
    typed, record, saved = trained
    words = ("export", record.key[:10], "--from", saved, *typed)
    assert bench(*words, "--to", tmp_path / "a").returncode == 0
    assert not sent
    assert bench(*words, "--to", tmp_path / "b", "--push", "me/student").returncode == 0
    assert sent == [("me/student", True), ("me/student", tmp_path / "b")]

    def refuse(self, name, **how):
        raise ValueError("no token")

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", refuse)
    done = bench(*words, "--to", tmp_path / "c", "--push", "me/student")
    assert done.returncode == 2
    assert "no token" in done.stderr
    assert (tmp_path / "c" / "config.json").is_file(), "what was exported stays"
