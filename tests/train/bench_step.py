"""One step of every method on a tiny teacher: the teacher's pass, forward, backward and optimiser.

What such a step takes is the overhead of the method and of the trainer, since the models are almost nothing. The matrix
products of real sizes are measured by ``tox -e peers``.
"""

from __future__ import annotations

import pytest
import torch

import methods
from bench.conformance.tiny_bench import Bench
from bench.data.padding import pad_batch
from bench.train.student_trainer import SHARE_POINTS, MicroBatch
from methods.api import Out
from methods.models import forward

ROUNDS = 40


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", methods.names())
def test_a_step(name, benchmark, one_thread):
    kind = methods.get(name)
    bench = Bench(kind(**kind.tiny_settings), 2)
    trainer = bench.trainer()
    stage = trainer.schedule["counted"][0]
    batch = bench.data.batch(range(16))
    if stage.stage.padding:
        batch = pad_batch(batch, bench.data, stage.stage.padding)

    def step(number: int) -> None:
        answer = Out(batch.layout)
        if stage.teacher:
            with torch.no_grad():
                answer = forward(bench.teacher, batch, stage.teacher)
        trainer.step(stage, number, [MicroBatch(batch, answer)])

    step(0)  # the optimiser has its moments from now on
    measured = {part * stage.steps // SHARE_POINTS for part in range(SHARE_POINTS)}
    plain = next(number for number in range(1, stage.steps) if number not in measured)
    benchmark.pedantic(step, (plain,), rounds=ROUNDS, warmup_rounds=2)
    benchmark.extra_info |= {"stage": stage.stage.name, "steps": ROUNDS}
