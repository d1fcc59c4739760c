"""The display of several jobs: it shows what workers say, and survives whatever they have not said yet."""

from __future__ import annotations

import io

from bench.progress import Progress
from bench.run.display import Display, FileProgress
from bench.run_status import write_status


def test_a_worker_that_still_plans_has_no_status(tmp_path):
    """What it says before its first job has no job to belong to: the display would not find its fields."""
    worker = FileProgress()
    worker.say("a note of the plan")
    with worker.task("planning") as update:
        update(1, 2)
    assert worker.told() == {}
    worker.begin("rte: kd")
    worker.say_pace("3 of 10 steps")
    said = io.StringIO()
    write_status(tmp_path / "000001.json", worker.told())
    Display(tmp_path, Progress(said)).refresh()
    assert "3 of 10 steps" in said.getvalue()


def test_words_of_a_job_are_shown_once(tmp_path):
    worker, said = FileProgress(), io.StringIO()
    display = Display(tmp_path, Progress(said))
    worker.begin("rte: kd")
    for text in ("one", "two"):
        worker.say(text)
        write_status(tmp_path / "000001.json", worker.told())
        display.refresh()
        display.refresh()
    assert [line.strip() for line in said.getvalue().splitlines()] == ["one", "two"]


def test_what_was_done_before_says_nothing_of_the_pace():
    now, said = [0.0], io.StringIO()
    with Progress(said, lambda: now[0]).task("students") as update:
        update(1000, 2000)
        now[0] = 20.0
        update(1010, 2000)
    assert "1010/2000 steps, about 33 min 00 s left" in said.getvalue()
