"""What kept outputs of a teacher save: the same steps with a teacher that answers, and with one that is read from a file.

Steps take turns on the same batches, on one thread. ``BENCH_DATA`` names a folder with GLUE's mrpc; without it the sample
suite's rows are read, which are shorter.
"""

from __future__ import annotations

import os
import statistics
import time

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from bench.data.checkpoints import find, tokenizer_of
from bench.data.encoding import batches_of_epoch, encode
from bench.data.sources import source_for
from bench.data.tasks import GLUE
from bench.make.outputs import FILE
from bench.plan.outputs import readable_taps
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import parse_one
from bench.record.recipe import Recipe
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import MicroBatch, StudentTrainer
from bench.train.teacher_outputs import KeptTeacher, TeacherOutputs, write_outputs
from methods.api import Setup
from methods.models import forward

STEPS, BATCH = 33, 32
BERT_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
REACH = {"tinybert": 2.5, "microbert": 2.5, "kd": 2.5}
"""How many times faster a step has to be, at least."""


def trained(row, setup, data):
    random = RandomState(0, torch.device("cpu"))
    with random.current():
        student = row.method.build(setup)
    stages = schedule_stages(row.method.stages(setup), (), Recipe(batch_size=BATCH), len(data))
    return StudentTrainer(row.spelling, student, random, *stages, ComputeSettings())


@pytest.mark.parametrize("name", REACH)
def test_a_step_that_reads_its_teacher_is_several_times_faster(name, tmp_path, benchmark):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ratios, read, passed, size = benchmark.pedantic(measured, (name, tmp_path), rounds=1)
    finally:
        torch.set_num_threads(before)
    low, middle, high = statistics.quantiles(ratios, n=4)
    benchmark.extra_info |= {
        "ratio": round(middle, 2),
        "quartiles": [round(low, 2), round(high, 2)],
        "seconds a step": [round(statistics.median(times), 3) for times in (passed, read)],
        "by sums": round(sum(passed) / sum(read), 2),
        "megabytes": round(size / 1e6, 1),
        "steps": len(ratios),
    }
    print(name, benchmark.extra_info)
    assert middle > REACH[name]


def measured(name, folder):
    task = GLUE["mrpc"]
    checkpoint = find("embedded", task, True)
    split = source_for(task, os.environ.get("BENCH_DATA", "sample"), True).load(task, "train").limited(STEPS * BATCH)
    data = encode(tokenizer_of(checkpoint), split, 128)
    config = AutoConfig.from_pretrained(checkpoint.folder, **BERT_BASE)
    config.num_labels = 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        teacher = AutoModelForSequenceClassification.from_config(config).eval()
    teacher.set_attn_implementation("packed")
    row = parse_one(f"{name}:start=random")
    setup = Setup(config, 2, ("mrpc",))
    taps = readable_taps(row.method.stages(setup), ())
    parts = write_outputs(folder / FILE, teacher, data, taps, "fp32", ComputeSettings())
    kept = KeptTeacher(teacher, TeacherOutputs(folder / FILE, parts, "fp32", data)).eval()
    stages = {id(model): trained(row, setup, data) for model in (teacher, kept)}
    seconds = {id(teacher): [], id(kept): []}
    for number, rows in enumerate(batches_of_epoch(len(data), BATCH, 0, 0)[:STEPS]):
        batch = data.batch(rows)
        for model in (teacher, kept):
            trainer = stages[id(model)]
            stage = trainer.schedule["counted"][0]
            begun = time.perf_counter()
            with torch.no_grad():
                answer = forward(model, batch, stage.teacher)
            trainer.step(stage, number, [MicroBatch(batch, answer)])
            seconds[id(model)].append(time.perf_counter() - begun)
    passed, read = seconds[id(teacher)], seconds[id(kept)]
    return [one / other for one, other in zip(passed, read, strict=True)], read, passed, (folder / FILE).stat().st_size
