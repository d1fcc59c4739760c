"""What keeping the state of a training costs: the seconds of a saving, compared with those between two savings."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig

from bench.data.checkpoints import find, tokenizer_of
from bench.data.encoding import batches_of_epoch, encode
from bench.data.sources import source_for
from bench.data.tasks import GLUE
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import parse_one
from bench.record.recipe import Recipe
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import MicroBatch, StudentTrainer
from bench.train.training_state import EVERY_SECONDS, WORTH, TrainingStates
from methods.api import Out, Setup

ROWS = {
    "student of 4 layers": "finetune:start=random",
    "BERT-base": "finetune:layers=12:hidden=768:heads=12:ffn=3072:start=random",
}
MOST = 0.02
"""The share of the time that saving may take."""


@pytest.mark.parametrize("name", ROWS)
def test_saving_takes_less_than_two_percent_of_the_time(name, tmp_path, benchmark):
    task = GLUE["mrpc"]
    checkpoint = find("embedded", task, True)
    data = encode(tokenizer_of(checkpoint), source_for(task, "sample", True).load(task, "train").limited(16), 128)
    config = AutoConfig.from_pretrained(checkpoint.folder)
    row, setup = parse_one(ROWS[name]), Setup(config, 2, ("mrpc",))
    random = RandomState(0, torch.device("cpu"))
    with random.current():
        student = row.method.build(setup)
    stages = schedule_stages(row.method.stages(setup), (), Recipe(batch_size=8), len(data))
    trainer = StudentTrainer(row.spelling, student, random, *stages, ComputeSettings())
    batch = data.batch(next(iter(batches_of_epoch(len(data), 8, 0, 0))))
    part = MicroBatch(batch, Out(batch.layout))
    trainer.step(trainer.schedule["counted"][0], 0, [part])  # the optimizer has its moments from now on
    states = TrainingStates([name], folder=tmp_path, code=["code"], every=0.0)
    benchmark.pedantic(states.save, ([trainer], 1), rounds=5, warmup_rounds=1)
    seconds = benchmark.stats.stats.median
    share = seconds / max(EVERY_SECONDS, WORTH * seconds)
    size = states.files[0].stat().st_size
    benchmark.extra_info |= {"megabytes": round(size / 1e6, 1), "share of the time": f"{100 * share:.2f} %"}
    print(name, f"{seconds:.2f} s", benchmark.extra_info)
    assert share <= MOST
