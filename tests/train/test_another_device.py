"""Every method, with all that it is made from, is taken through a run on a device whose tensors the CPU's do not mix with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from pretend_device import NAME, pretend_device
from shipped_methods import tiny_rows

import methods
from bench import api
from bench.conformance.tiny_bench import Bench, Broken
from bench.plan import estimate
from bench.progress import Progress
from bench.run import carry_out
from bench.train.numerics import ComputeSettings
from methods.core.models import FrozenTeacher
from methods.core.truncation import collect_activations

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="torch takes one accelerator, and here is a real one"
)


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(estimate, "rates_of_card", lambda device, precision: (1e12, 1e-6))
    with pretend_device(monkeypatch) as made:
        yield made


@pytest.fixture
def records(tmp_path, device):
    """The records of a run on that device."""
    glue, text = tiny.write_glue(tmp_path / "glue", ("rte",), rows=16), tmp_path / "corpus.txt"
    text.write_text(
        "the cat runs in the house .\nan old bird sings and the fish swims in the river\n" * 40
    )
    teacher = tiny.save_teacher(tmp_path / "teacher", layers=4)

    def run(*names: str, **options) -> list[api.Record]:
        request = api.Request(
            tiny_rows(*names), "rte", data=str(glue), teacher=str(teacher), corpus=(str(text),), corpus_tokens=300,
            device=NAME, epochs=1.0, threads=1, results=tmp_path / "r", reports=tmp_path / "p", **options,
        )  # fmt: skip
        carry_out(api.plan(request), Progress())
        return list(api.Store(request.results).records())

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [("tinybert", "moebert", "theseus"), pytest.param((), marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_no_method_mixes_the_device_with_the_cpu(records, names, monkeypatch):
    """Teachers, artefacts, training and scoring; teachers of students and of a general start answer directly."""
    trained, answered = names or methods.names(), []
    usual = FrozenTeacher.packed_forward
    monkeypatch.setattr(
        FrozenTeacher, "packed_forward", lambda *given: answered.append(given) or usual(*given)
    )
    errors = {r.cell.method: r.error.message for r in records(*names) if r.error}
    # numbers of this device mean nothing, so the parameters of a token's experts may be below 0
    errors = {row: why for row, why in errors.items() if not why.startswith("active_parameters")}
    assert errors == {}
    assert {r.cell.method for r in records(*names)} == {"teacher", *trained}
    assert answered


@pytest.mark.slow
def test_nor_do_augmentation_kept_outputs_parts_of_batches_and_the_choice_of_an_epoch(records):
    done = records(
        "kd", "minilm", augment="masked", augment_times=1, teacher_outputs="fp16", checkpoint="best-on-half",
        numbers=(("micro_batch", 4),),
    )  # fmt: skip
    assert [(r.error, r.cell.numeric.device) for r in done] == [(None, NAME)] * 3


KD = methods.get("kd")


class Forgetful(KD):
    """Its terms have a tensor of their own, and nothing moves it to the device."""

    def stages(self, setup):
        def with_own_tensor(term):
            return replace(term, fn=lambda *given: (term.fn(*given) * torch.ones(2)).mean())

        stages = super().stages(setup)
        return [
            replace(s, terms={name: with_own_tensor(term) for name, term in s.terms.items()})
            for s in stages
        ]


@pytest.mark.slow
def test_deterministic_kernels_are_asked_of_torch_and_said(records, monkeypatch):
    asked = []
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    monkeypatch.setattr(torch, "use_deterministic_algorithms", asked.append)
    _, student = records("kd", deterministic=True)
    assert set(asked) == {True}
    assert student.cell.numeric.deterministic
    assert (student.env["deterministic"], student.env["cublas_workspace"]) == (True, ":16:8")


def bench(device: torch.device, kind: type = KD, **settings) -> Bench:
    made = Bench(kind(**{**kind.tiny_settings, **settings}), 2)
    made.setup  # noqa: B018  # what the student is made from is made on the CPU, which is faster
    made.numerics = ComputeSettings(device)
    made.teacher.to(device)
    return made


def test_a_method_that_forgets_to_move_a_tensor_is_stopped(device):
    with pytest.raises(Broken, match="given tensors of the device and of the CPU"):
        bench(device, Forgetful, start="random").trained()


def test_the_activations_for_a_general_start_are_collected_there_and_fitted_on_the_cpu(
    device, teacher_folder
):
    teacher, data = tiny.classifier(seed=1), tiny.encoded(teacher_folder)
    here, there = (
        collect_activations(teacher.to(place), data.first(100, place)) for place in ("cpu", device)
    )
    for part in ("hidden", "middle", "neuron_activity"):
        ours, theirs = getattr(here, part), getattr(there, part)
        assert all(torch.allclose(ours[layer], theirs[layer], atol=1e-5) for layer in ours)
        assert {tensor.device.type for tensor in theirs.values()} == {"cpu"}


@pytest.mark.slow
def test_the_device_computes_what_the_cpu_does(device):
    """Its attention adds up in another order."""
    trained = bench(device, start="random").trained()
    assert {p.device.type for p in trained.student.model.parameters()} == {NAME}
    ours, theirs = (
        trained.student.model.cpu(),
        bench(torch.device("cpu"), start="random").trained().student.model,
    )
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-4)
