"""Timing: in turns, after a steady warm-up, never beside training, wrong predictions refused."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from transformers import BertForSequenceClassification, BertModel, RobertaConfig

from bench.data import checkpoints
from bench.errors import InputError
from bench.measure import busy
from bench.measure.backends import runner
from bench.measure.busy import refuse_while_training, training_here, trainings
from bench.measure.latency import full_length, load_of_task, stopwatch, time_in_turns, warm_up
from bench.progress import Progress
from bench.record.speed_sessions import Conditions, SpeedRecord, Timing, speed_records
from bench.report.speed_page import conditions_of, latency_tables, speed_up, write_speed_report
from bench.workflows import speed
from methods.core.models import PackedModel

REAL_BUSY_CORES = busy.busy_cores  # before the fixtures say that nothing else works here
LOAD = full_length(2, 16, 40)


def asked(tmp_path, teacher_folder, **more):
    """A session on rte's tiny examples."""
    glue = tiny.write_glue(tmp_path / "glue", ("rte",))
    given = {
        "teacher": str(teacher_folder),
        "threads": 1,
        "task": "rte",
        "data": str(glue),
        "device": "cpu",
    }
    return speed.SpeedRequest(**{**given, "results": tmp_path, **more})


def under(backend):
    """The conditions of LOAD on one thread of the processor."""
    return Conditions(
        device="cpu", backend=backend, dtype="fp32", threads=1, batch=2, length=LOAD.name
    )


def test_systems_take_turns():
    order: list[int] = []

    def timed(call):
        call()
        return 0.001

    class Marked(type(tiny.classifier())):
        def forward(self, *args, **kwargs):
            order.append(self.mark)
            return super().forward(*args, **kwargs)

    models = {}
    for mark in range(2):
        model = Marked(tiny.config())
        model.mark = mark
        models[f"m{mark}"] = model
    found = time_in_turns(models, LOAD, under("eager"), 4, timed=timed)
    assert order[-8:] == [0, 1] * 4
    assert [len(t.seconds) for t in found] == [4, 4]


def test_warm_up_ends_when_times_settle():
    times = iter([9.0] * 5 + [5.0] * 5 + [3.0] * 5 + [3.05] * 5 + [1.0] * 50)
    assert warm_up(lambda: None, lambda call: next(times)) == 20
    restless = iter(float(2 ** (i // 5)) for i in range(100))
    assert warm_up(lambda: None, lambda call: next(restless)) == 60


COMPILED = pytest.param("compile", marks=[pytest.mark.slow, pytest.mark.long])


@pytest.mark.parametrize("backend", ["eager", "sdpa", "onnx", "onnx-int8", COMPILED])
def test_backends_agree(backend):
    if "onnx" in backend:
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnx")
    if backend == "compile" and shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile needs a C++ compiler on the CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler warns of is not ours
        (timing,) = time_in_turns({"m": tiny.classifier(hidden=64)}, LOAD, under(backend), 6)
    assert timing.status == "ok", timing.error
    is_another_model = backend == "onnx-int8"
    assert (
        (1e-6 if is_another_model else 0)
        <= timing.largest_difference
        < (0.1 if is_another_model else 1e-5)
    )
    assert timing.warmup >= 10


def test_what_an_exporter_cannot_do_is_said_and_the_others_go_on(capsys):
    """The inverse of erf has no form in ONNX; the exporter prints the whole graph."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    inverts = tiny.classifier()
    inverts.bert.pooler.register_forward_hook(lambda module, given, pooled: torch.erfinv(pooled))
    found = time_in_turns({"a": inverts, "b": tiny.classifier()}, LOAD, under("onnx"), 6)
    assert [t.status for t in found] == ["failed", "ok"]
    assert "ONNX" in found[0].error
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "planted",
    [lambda logits: logits + 1, lambda logits: logits * float("nan")],
    ids=["wrong", "no numbers"],
)
def test_a_backend_that_answers_something_else_gets_no_time(monkeypatch, planted):
    def other(model, backend, *rest):
        run = runner(model, backend, *rest)
        return run if backend == "eager" else (lambda ids, mask: planted(run(ids, mask)))

    monkeypatch.setattr("bench.measure.latency.runner", other)
    (timing,) = time_in_turns({"m": tiny.classifier()}, LOAD, under("sdpa"), 6)
    assert (timing.status, timing.seconds) == ("failed", [])
    assert "differ" in timing.error


class Rounding(PackedModel, BertForSequenceClassification):
    rounds_values = True


def test_a_model_that_rounds_may_differ_by_a_step(monkeypatch):
    """The last digits of two kernels decide where a number is rounded to."""

    def other(model, backend, *rest):
        run = runner(model, backend, *rest)
        return run if backend == "eager" else (lambda ids, mask: run(ids, mask) + 0.01)

    monkeypatch.setattr("bench.measure.latency.runner", other)
    plain = tiny.classifier()
    timings = time_in_turns(
        {"plain": plain, "rounding": Rounding(plain.config)}, LOAD, under("sdpa"), 6
    )
    assert [timing.status for timing in timings] == ["failed", "ok"]


def test_a_task_with_fewer_examples_than_a_batch_is_bad_input(teacher_folder):
    tokens = tiny.encoded(teacher_folder).tokens
    with pytest.raises(
        InputError, match=f"--batches {len(tokens) + 1}: wnli has only {len(tokens)} examples"
    ):
        load_of_task("wnli", tokens, len(tokens) + 1)


def test_the_second_gpu_is_timed_by_its_own_events(monkeypatch):
    class Event:
        def __init__(self, device, enable_timing):
            self.device = device

        def record(self):
            """On the stream of its device."""

        def elapsed_time(self, other):
            return 7.0 if self.device == other.device == torch.device("cuda:1") else 0.0

    monkeypatch.setattr(torch, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    assert stopwatch(torch.device("cuda:1"))(lambda: None) == 0.007


def test_task_lengths_are_padded_to_the_batch(teacher_folder):
    tokens = tiny.encoded(teacher_folder).tokens
    load = load_of_task("rte", tokens, 8)
    assert len(load.batches) == len(tokens) // 8
    for number, (ids, mask) in enumerate(load.batches):
        rows = tokens[8 * number : 8 * number + 8]
        assert ids.shape == mask.shape == (8, max(map(len, rows)))
        assert mask.sum(1).tolist() == [len(row) for row in rows]


def test_no_times_beside_a_training(tmp_path, monkeypatch):
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path))
    with training_here(tmp_path):
        assert trainings(tmp_path) == [f"process {os.getpid()} on {platform.node()}"]
        with pytest.raises(InputError, match="cells are training"):
            speed.measure(speed.SpeedRequest(methods="kd", teacher="embedded"))
    assert trainings(tmp_path) == []


@pytest.mark.slow
@pytest.mark.long
def test_peak_memory_is_that_of_the_model_and_not_of_the_imports():
    from bench.measure.memory import footprint

    small, large = (
        footprint("m", tiny.classifier(hidden=hidden), "cpu").peak_bytes for hidden in (24, 1024)
    )
    stored = 4 * sum(p.numel() for p in tiny.classifier(hidden=1024).parameters())
    assert stored < large < 6 * stored + 2 * 10**8
    assert small < large


def test_no_times_beside_other_processes_unless_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(busy, "busy_cores", lambda: 1.26)
    with pytest.raises(InputError, match=r"other processes use 1\.3 cores .* --busy"):
        speed.measure(speed.SpeedRequest(methods="kd", teacher="embedded", threads=1))
    for others, is_told in ((1.26, True), (0.1, False)):
        record = SpeedRecord(
            teacher="t", timings=[], env={"busy_cores": others}, started="a", finished="b"
        )
        text = write_speed_report(record, tmp_path / str(others)).read_text()
        assert ("Other processes used 1.3 cores when it began." in text) is is_told


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="no way to leave this process one core"
)
@pytest.mark.parametrize("in_spite", [True, False])
def test_more_threads_than_cores_are_refused(tmp_path, in_spite):
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with pytest.raises(InputError, match=r"--threads 2: .* may use 1 core, .* --threads 1$"):
            busy.refuse_bad_times(tmp_path, 2, in_spite)
        assert busy.refuse_bad_times(tmp_path, 1, in_spite) == 0.0
        assert busy.refuse_bad_times(tmp_path, 2, in_spite, "cuda") == 0.0
        with pytest.raises(InputError, match="--threads 2"):
            speed.measure(speed.SpeedRequest(methods="kd", teacher="embedded", device="cpu"))
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.skipif(
    not Path("/proc/stat").is_file(),
    reason="no /proc/stat: this machine does not tell how busy it is",
)
def test_work_of_another_process_is_seen():
    def seen():
        return max(REAL_BUSY_CORES(0.1) for _ in range(4))

    idle = min(REAL_BUSY_CORES(0.1) for _ in range(4))
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert seen() > min(0.3, idle + 0.3)
    finally:
        worker.kill()
        worker.wait()


def test_own_work_is_not_taken_for_that_of_others(tmp_path):
    """The kernel counts a second of work, and this process did half of it."""
    ticks = os.sysconf("SC_CLK_TCK")
    file = tmp_path / "stat"
    file.write_text("cpu 0 0 0 0 0 0 0 0\n")
    others = busy.OtherWork(file)
    begun = time.process_time()
    while time.process_time() - begun < 0.5:
        pass
    file.write_text(f"cpu {ticks} 0 0 0 0 0 0 0\n")
    seen = others.cores() * (time.perf_counter() - others._begun)
    assert seen == pytest.approx(0.5, abs=0.1)


def test_a_machine_that_does_not_tell_is_not_called_idle(tmp_path):
    assert REAL_BUSY_CORES(0.0, tmp_path / "none") is None
    (tmp_path / "odd").write_text("cpu a b c\n")
    assert REAL_BUSY_CORES(0.0, tmp_path / "odd") is None


@pytest.mark.slow
def test_a_finished_classifier_is_timed_with_its_weights(tmp_path, teacher_folder, monkeypatch):
    """Its predictions on a task are compared with those of eager attention; a backend that shifts them is counted."""
    row = f"checkpoint:{tiny.save_teacher(tmp_path / 'finished', BertForSequenceClassification)}"
    more = {"lengths": ("task",), "batches": (4,), "rounds": 6, "memory": False}
    request = asked(tmp_path, teacher_folder, methods=row, **more)
    record, _ = speed.measure(request)
    teacher, own = record.timings
    assert (teacher.changed, teacher.compared) == (None, None), "random weights predict nothing"
    assert (own.changed, own.compared) == (0, 40)

    def flipped(model, backend, *rest):
        run = runner(model, backend, *rest)
        return run if backend == "eager" else (lambda ids, mask: run(ids, mask).flip(-1))

    monkeypatch.setattr("bench.measure.latency.runner", flipped)
    record, _ = speed.measure(request)
    own = record.timings[-1]
    assert own.status == "failed" or own.changed > 0


def test_a_finished_regression_has_no_predicted_classes_to_compare():
    """Of one logit the class is always the first: no backend could ever be seen to change one."""
    systems = {
        "checkpoint:stsb": tiny.classifier(num_labels=1),
        "checkpoint:rte": tiny.classifier(),
    }
    load = replace(LOAD, has_examples=True)
    regression, classes = time_in_turns(systems, load, under("sdpa"), 6)
    assert regression.status == "ok"
    assert (regression.changed, regression.compared) == (None, None)
    assert (classes.changed, classes.compared) == (0, 2)


@pytest.mark.parametrize(
    "name, says", [("nowhere", "config.json"), ("other", "another vocabulary")]
)
def test_a_finished_classifier_that_does_not_fit_is_bad_input(name, says, tmp_path, teacher_folder):
    other = tiny.save_teacher(tmp_path / "other", BertForSequenceClassification)
    vocabulary = (other / "vocab.txt").read_text().split("\n")
    (other / "vocab.txt").write_text("\n".join([*vocabulary[:5], *reversed(vocabulary[5:-1]), ""]))
    (tmp_path / "nowhere").mkdir()
    with pytest.raises(InputError, match=says):
        speed.measure(
            asked(
                tmp_path, teacher_folder, methods=f"checkpoint:{tmp_path / name}", lengths=("task",)
            )
        )


def test_marks_of_processes_that_are_gone_do_not_count(tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "999999999").touch()
    assert trainings(tmp_path) == []
    assert list((tmp_path / "training").iterdir()) == []


def test_the_mark_of_another_machine_counts_for_the_cache_and_not_for_times(tmp_path):
    """Machines that share a cache do not see each other's processes."""
    mark = tmp_path / "training" / "far-away-999999999"
    mark.parent.mkdir()
    mark.touch()
    assert trainings(tmp_path) == ["process 999999999 on far-away"]
    with pytest.raises(InputError, match="process 999999999 on far-away"):
        refuse_while_training(tmp_path, "wait")
    refuse_while_training(tmp_path, "wait", here_alone=True)
    assert mark.exists()


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"rounds": 5}, "at least 6"),
        ({"backends": ("tensorrt",)}, "no backend"),
        ({"dtype": "int8"}, "choose one of"),
        ({"backends": ("onnx-int8",), "dtype": "bf16"}, "goes with --dtype fp32"),
        ({"lengths": ("long",)}, "numbers of tokens"),
        ({"lengths": ("task",)}, "--task rte"),
        ({"batches": ()}, "--batches"),
        ({"threads": 0}, "--threads"),
    ],
)
def test_bad_requests_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        speed.measure(
            speed.SpeedRequest(**{"methods": "kd", "teacher": "bert-base-uncased", **wrong})
        )


@pytest.mark.slow
@pytest.mark.long
def test_a_session_from_request_to_report(tmp_path, teacher_folder, monkeypatch):
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "cache"))
    rows = f"kd:{tiny.SHAPE},pkd:layers=2"
    request = asked(
        tmp_path, teacher_folder, methods=rows, lengths=("16", "task"), batches=(1, 4), rounds=8
    )
    record, path = speed.measure(request)
    assert path.is_file()
    (again,) = speed_records(tmp_path)
    assert again == record
    assert len(conditions_of(record)) == 4
    for conditions in conditions_of(record):
        found = speed_up(record, "pkd:layers=2", conditions)
        assert found.low <= found.median <= found.high
    assert all(f.checkpoint_bytes > 0 and f.peak_bytes >= 0 for f in record.footprints)
    text = write_speed_report(record, tmp_path / "reports").read_text()
    assert "p99" not in text, "the 99th percentile of 8 rounds is their maximum"
    for words in (
        "max (ms)",
        "batch 4, length 16",
        "length task rte",
        "1 thread",
        "checkpoint (MB)",
    ):
        assert words in text
    assert len(latency_tables(record)) == 5
    assert len(list((tmp_path / "reports").glob("speed/*/tables/*.csv"))) == 5


@pytest.mark.parametrize(
    ("rounds", "named"),
    [
        (9, ["p50 (ms)", "max (ms)"]),
        (30, ["p50 (ms)", "p90 (ms)", "max (ms)"]),
        (99, ["p50 (ms)", "p90 (ms)", "max (ms)"]),
        (100, ["p50 (ms)", "p90 (ms)", "p99 (ms)"]),
    ],
)
def test_a_table_names_no_percentile_that_its_rounds_do_not_resolve(rounds, named):
    """p99 of 30 calls was their maximum, p50 the lower of the two in the middle."""
    conditions = Conditions(
        device="cpu", backend="sdpa", dtype="fp32", threads=2, batch=1, length="128"
    )
    seconds = np.random.default_rng(0).permutation(np.arange(1, rounds + 1) / 1000).tolist()
    timings = [
        Timing(system=name, conditions=conditions, seconds=seconds) for name in ("teacher", "kd")
    ]
    timings.append(
        Timing(system="broken", conditions=conditions, status="failed", error="no memory")
    )
    (table,) = latency_tables(
        SpeedRecord(teacher="t", timings=timings, started="2026", finished="2026")
    )
    assert table.header[1 : 1 + len(named)] == named
    assert {len(row) for row in table.rows} == {len(table.header)}
    shares = {"p50 (ms)": 0.5, "p90 (ms)": 0.9, "p99 (ms)": 0.99, "max (ms)": 1}
    expected = [f"{1000 * np.quantile(seconds, shares[name]):.2f}" for name in named]
    assert table.rows[1][1 : 1 + len(named)] == expected


SHORT = {"lengths": ("8", "task"), "batches": (1,), "rounds": 6, "memory": False}


def test_an_offline_session_never_asks_the_hub_for_its_teacher(
    monkeypatch, teacher_folder, tmp_path
):
    were_offline = []

    def downloaded(name, patterns, offline, *further, revision):
        were_offline.append(offline)
        return teacher_folder

    monkeypatch.setattr(checkpoints, "downloaded", downloaded)
    checkpoints._from_hub.cache_clear()
    tiny.save_teacher(tmp_path / "finished", BertForSequenceClassification)
    methods = f"kd:{tiny.SHAPE},checkpoint:{tmp_path / 'finished'}"
    request = asked(tmp_path, teacher_folder, methods=methods, **SHORT, offline=True)
    record, _ = speed.measure(replace(request, teacher="some/one"))
    assert record.teacher == "some/one"
    assert set(were_offline) == {True}


def test_what_cannot_be_timed_is_said_before_any_timing(monkeypatch, teacher_folder, tmp_path):
    timed = []
    monkeypatch.setattr(
        "bench.measure.latency.time_in_turns", lambda *given: timed.append(given) or []
    )
    request = asked(tmp_path, teacher_folder, methods=f"kd:{tiny.SHAPE}", **SHORT)
    with pytest.raises(InputError, match="5000"):
        speed.measure(replace(request, batches=(1, 5000)))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="other packages"):
        speed.measure(replace(request, backends=("sdpa", "onnx")))
    assert timed == []


def test_lengths_of_a_task_are_those_that_its_rows_are_trained_with(tmp_path):
    for name in ("long.csv", "dev.csv"):
        (tmp_path / name).write_text(
            "text,label\n" + "".join(f"{'the cat runs ' * 60},{i % 2}\n" for i in range(20))
        )
    (tmp_path / "long.toml").write_text(
        'name = "long"\ntrain = "long.csv"\nvalidation = "dev.csv"\ntext = ["text"]\nlabels = ["0", "1"]\n'
        'metrics = ["accuracy"]\nmax_length = 160\n'
    )
    teacher = tiny.save_teacher(tmp_path / "teacher")
    config = tiny.config()
    config.max_position_embeddings = 150
    BertModel(config).save_pretrained(teacher)
    asked = speed.SpeedRequest(methods="kd", teacher=str(teacher), task=str(tmp_path / "long.toml"))
    assert speed._load(asked, "task", 4, [config]).batches[0][0].shape == (4, 150)
    roberta = RobertaConfig(max_position_embeddings=66, pad_token_id=1)
    assert speed._load(asked, "task", 4, [config, roberta]).batches[0][0].shape == (4, 64), (
        "positions 0 and 1 are [PAD]'s"
    )


def test_a_length_is_timed_once_also_where_a_longer_one_is_cut_to_it(tmp_path, teacher_folder):
    lengths = ("16", str(tiny.config().max_position_embeddings), "512", "16")
    session, *_ = speed.measure(
        asked(
            tmp_path,
            teacher_folder,
            methods=f"kd:{tiny.SHAPE}",
            lengths=lengths,
            batches=(1,),
            rounds=6,
            memory=False,
        )
    )
    assert [t.conditions.length for t in session.timings if t.system == "teacher"] == list(
        lengths[:2]
    )


@pytest.mark.slow
def test_what_is_asked_for_twice_is_timed_once_and_a_cut_length_is_said(tmp_path, teacher_folder):
    said: list[str] = []
    progress = Progress()
    progress.say = said.append
    request = asked(
        tmp_path,
        teacher_folder,
        methods=f"kd:{tiny.SHAPE}",
        lengths=("5000", "16", "016"),
        batches=(1, 1),
        backends=("sdpa", "sdpa"),
        rounds=6,
        memory=False,
    )
    record, _ = speed.measure(request, progress)
    longest, short = dict.fromkeys(timing.conditions.length for timing in record.timings)
    assert short == "16"
    systems = [*dict.fromkeys(timing.system for timing in record.timings)]
    assert [timing.system for timing in record.timings] == systems * 2
    assert [text for text in said if text.startswith("--lengths")] == [
        f"--lengths 5000: some model reads {longest} tokens at most; timed at those"
    ]
