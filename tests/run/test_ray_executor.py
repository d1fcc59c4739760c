"""Jobs on Ray clusters of this machine: records equal to those of this process, also where a node goes away."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from small_runs import LONG, ends
from started_runs import WhileTraining

from bench import api
from bench.progress import Progress

ray = pytest.importorskip("ray", reason="needs the extra 'ray'")


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.mark.slow
@pytest.mark.long
def test_a_cluster_of_this_machine_gives_the_same_answers_to_the_bit(
    request_, tmp_path, monkeypatch
):
    """Teachers, a start, importance scores, an ensemble and students; each time from an empty cache."""
    whole = request_("one")
    assert api.run(whole).exit_code == 0
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "another cache"))
    several = request_("several", jobs=2, executor="ray")
    assert api.run(several).exit_code == 0
    assert ends(several) == ends(whole)
    assert {record.env["jobs"] for record in api.Store(several.results).records()} == {2}
    assert not ray.is_initialized()
    assert not list((tmp_path / "another cache" / "progress").glob("*/*"))
    assert not list((tmp_path / "another cache" / "cluster-runs").iterdir())


@pytest.fixture
def two_nodes(tmp_path):
    """A cluster whose head does no jobs, and two nodes of one core that share no cache with this process or each other."""
    from ray.cluster_utils import Cluster

    store = {"object_store_memory": 100_000_000}
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store}
    )
    try:
        caches = {}
        for name in ("first", "second"):
            cache = tmp_path / f"cache of {name}"
            caches[
                cluster.add_node(num_cpus=1, env_vars={"BERT_BENCH_CACHE": str(cache)}, **store)
            ] = cache
        yield cluster, caches
    finally:
        cluster.shutdown()


def parent(process: int) -> int:
    """The process that started a process; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[1])
    except OSError:
        return 0


@linux
@pytest.mark.slow
@pytest.mark.long
def test_nodes_without_a_common_disk_and_one_that_goes_away(
    request_, tmp_path, monkeypatch, two_nodes
):
    """What a job reads travels to its node once, what it makes comes back, and a job whose node is gone is done again."""
    whole = request_("one", **LONG)
    assert api.run(whole).exit_code == 0
    here = tmp_path / "another cache"
    monkeypatch.setenv("BERT_BENCH_CACHE", str(here))
    cluster, caches = two_nodes
    request = request_("several", **LONG, jobs=0, executor="ray", address=cluster.address)
    said = io.StringIO()
    raylets = {node.all_processes["raylet"][0].process.pid: node for node in caches}
    killed = []

    def kill_its_node(process: int) -> bool:
        if (node := raylets.get(parent(process))) is not None:
            killed.append(node)
            cluster.remove_node(node, allow_graceful=False)
        return bool(killed)

    killer = WhileTraining(kill_its_node)
    outcome = api.run(request, Progress(said))
    killer.ended.set()
    assert killed
    assert outcome.exit_code == 0
    assert said.getvalue().count("the process that did this is gone") == 1
    assert ends(request) == ends(whole)
    assert {record.env["jobs"] for record in api.Store(request.results).records()} == {2}, (
        "as many as there are cores"
    )
    made = {path.parent.name for path in here.glob("*/*/made.json")}
    assert made, "what the nodes made is here"
    left = next(cache for node, cache in caches.items() if node not in killed)
    assert made == {path.parent.name for path in left.glob("*/*/made.json")}, (
        "the node that stayed did the rest"
    )
    assert not list(left.glob("halfway/*")), (
        "states of trainings that ended are removed on the nodes too"
    )
