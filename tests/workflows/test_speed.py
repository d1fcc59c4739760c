"""Sessions of timing: where they look for what they time. How they time is tested in tests/measure."""

from __future__ import annotations

import tiny

from bench.data import checkpoints
from bench.workflows import speed


def test_an_offline_session_never_asks_the_hub_for_its_teacher(monkeypatch, teacher_folder, glue_folder, tmp_path):
    asked = []

    def downloaded(name, patterns, offline, *further):
        asked.append(offline)
        return teacher_folder

    monkeypatch.setattr(checkpoints, "downloaded", downloaded)
    checkpoints._from_hub.cache_clear()
    tiny.save_teacher(tmp_path / "finished", tiny.BertForSequenceClassification)
    request = speed.SpeedRequest(
        methods=f"kd:{tiny.SHAPE},checkpoint:{tmp_path / 'finished'}",
        teacher="some/one",
        lengths=("8", "task"),
        batches=(1,),
        rounds=6,
        threads=1,
        device="cpu",
        task="rte",
        data=str(glue_folder),
        offline=True,
        memory=False,
        results=tmp_path / "r",
    )
    record, _ = speed.measure(request)
    assert record.teacher == "some/one"
    assert set(asked) == {True}
