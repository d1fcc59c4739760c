"""The display of several jobs: it shows what workers say, and survives whatever they have not said yet."""

from __future__ import annotations

import io

from bench.progress import Progress
from bench.run.display import Display, FileProgress


def test_words_of_a_job_are_shown_once(tmp_path):
    worker, said = FileProgress(), io.StringIO()
    display = Display(tmp_path, Progress(said))
    worker.say("before its first job: it has no file")
    worker.begin("rte: kd", tmp_path / "000001.json")
    for text in ("one", "two"):
        worker.say(text)
        display.refresh()
        display.refresh()
    assert [line.strip() for line in said.getvalue().splitlines()] == ["one", "two"]
