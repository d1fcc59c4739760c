"""What a Ray cluster has room for, and what is said where none answers."""

from __future__ import annotations

import pytest

from bench.errors import InputError
from bench.measure import ray_cluster
from bench.measure.ray_cluster import connected, has_room, places


class Ray:
    """A cluster that pretends: a head without jobs, a node of CPUs, one with GPUs, and one that is gone."""

    def __init__(self) -> None:
        gpus = {"CPU": 32.0, "GPU": 8.0, "memory": 64e9}
        self.of = [
            ({"CPU": 0.0, "memory": 8e9}, True),
            ({"CPU": 7.0, "memory": 16e9}, True),
            (gpus, True),
            (gpus, False),
        ]

    def nodes(self):
        return [{"Resources": resources, "Alive": alive} for resources, alive in self.of]


@pytest.fixture
def pretends(monkeypatch):
    from contextlib import nullcontext

    monkeypatch.setattr(ray_cluster, "connected", lambda address: nullcontext(Ray()))


def test_jobs_at_a_time_are_what_the_nodes_alive_have_room_for(pretends):
    assert places("auto", 1, accelerator=False) == 7 + 32
    assert places("auto", 2, accelerator=False) == 3 + 16, "half a job fits nowhere"
    assert places("auto", 1, accelerator=True) == 8
    assert places("auto", 8, accelerator=True) == 4, "each needs its cores too"
    assert places("auto", 64, accelerator=False) == 1


def test_a_job_needs_one_node_that_has_everything():
    assert has_room(Ray(), 7, accelerator=False, memory=15_000_000_000)
    assert has_room(Ray(), 8, accelerator=True, memory=60_000_000_000)
    assert not has_room(Ray(), 33, accelerator=False, memory=0)
    assert not has_room(Ray(), 1, accelerator=True, memory=65_000_000_000)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "auto"])
def test_an_address_where_nobody_answers_is_one_line(address):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    with pytest.raises(InputError, match=f"^--address {address}: "), connected(address):
        pass
