"""Jobs on Ray clusters of this machine: records equal to those of this process, also where a node goes away."""

from __future__ import annotations

import pytest
from small_runs import ends, requests

from bench import api

ray = pytest.importorskip("ray", reason="needs the extra 'ray'")


@pytest.fixture
def request_(tmp_path, teacher_folder, glue_folder):
    return requests(tmp_path, teacher_folder, glue_folder)


@pytest.mark.slow
@pytest.mark.long
def test_a_cluster_of_this_machine_gives_the_same_answers_to_the_bit(request_, tmp_path, monkeypatch):
    """Teachers, a start, importance scores, an ensemble and students; each time from an empty cache."""
    whole = request_("one")
    assert api.run(whole).exit_code == 0
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "another cache"))
    several = request_("several", jobs=2, executor="ray")
    assert api.run(several).exit_code == 0
    assert ends(several) == ends(whole)
    assert {record.env["jobs"] for record in api.Store(several.results).records()} == {2}
    assert not ray.is_initialized()
    assert not list((tmp_path / "another cache" / "progress").iterdir())
    assert not list((tmp_path / "another cache" / "cluster-runs").iterdir())
