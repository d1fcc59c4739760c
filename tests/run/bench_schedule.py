"""What the schedule itself takes: everything of a run between its jobs, with tiny students whose training is nearly nothing."""

from __future__ import annotations

import time

import tiny

from bench import api
from bench.make.step import Maker
from bench.run.schedule import Schedule

SEEDS = 24
JOB_SECONDS = 60.0
"""How long a job takes for which a share is promised."""
SHARE = 0.02


def test_the_schedule_takes_less_than_two_percent_of_jobs_of_a_minute(benchmark, tmp_path, monkeypatch):
    """Claims, records and their answers are written by it: their time is in it too."""
    data, teacher = tiny.write_glue(tmp_path / "tiny-glue"), tiny.save_teacher(tmp_path / "tiny-bert")
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "cache"))
    inside, around = [], []

    def measured(work, times):
        def timed(*given):
            begun = time.perf_counter()
            try:
                return work(*given)
            finally:
                times.append(time.perf_counter() - begun)

        return timed

    monkeypatch.setattr(Maker, "make", measured(Maker.make, inside))
    monkeypatch.setattr(Schedule, "carry_out", measured(Schedule.carry_out, around))
    request = api.Request(
        methods=f"finetune:{tiny.SHAPE}:start=random", tasks="rte", data=str(data), teacher=str(teacher), epochs=1,
        seeds=tuple(range(SEEDS)), results=tmp_path / "r", reports=tmp_path / "p", yes=True,
    )  # fmt: skip
    benchmark.pedantic(api.run, (request,), rounds=1, warmup_rounds=0)
    own = (sum(around) - sum(inside)) / len(inside)
    benchmark.extra_info |= {"jobs": len(inside), "milliseconds a job": round(1000 * own, 2)}
    assert len(inside) > 1
    assert own < SHARE * JOB_SECONDS
