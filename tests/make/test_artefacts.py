"""Artefacts: their keys as they were first published, the check of what the cache holds, and one that a third party adds."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import tiny
import torch

from bench import api, cache
from bench.cache import Slot
from bench.data import checkpoints
from bench.plan.build import build
from bench.plan.request import Request
from bench.record.store import Store
from methods.artefacts import BASE, TRAIN, Artefact
from methods.finetune import FineTune

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "tests" / "plugin"
MOBILEBERT = "mobilebert:layers=2:hidden=16:bottleneck=8:heads=2:ffn=8:embedding=8:inverted=16:pretraining=progressive"
ROWS = (
    f"kd:{tiny.SHAPE}",
    f"tinybert:{tiny.SHAPE}:start_from={{folder}}/given",
    f"minilm:{tiny.SHAPE}",
    "moebert",
    "moebert:importance_rows=validation",
    "distilbert:pretraining=masked",
    MOBILEBERT,
    "bilstm:words=40",
    f"pd:{tiny.SHAPE}:start=masked",
    "mtdnn",
)
KEYS: dict[str, dict[str, str]] = {
    "common": {
        "kd general_start": "2c1125304de37d8d5a24ce5457748ad330978e3d4b1f76cfa50add129775c362",
        "tinybert given_start": "5b729e0f619797fd61108a4bb177273222ad9ac5538299c8386f061e29046e60",
        "minilm relations": "b8e6cea3036e947b4b6b81fbbe972bb41a9e7820697e305ffccd6bc3f03cf3b3",
        "moebert tuned_teacher": "c85131c010aef22d822981dad8d3ef73633efbda71bc739aa097f10c6542f0fd",
        "moebert neuron_importance": "fdaf95f5c8bb67b33708953aa2619a05f9d2ff96431d4e095fd508e7c584edc0",
        "moebert tuned_teacher of evaluation rows": "c85131c010aef22d822981dad8d3ef73633efbda71bc739aa097f10c6542f0fd",
        "moebert neuron_importance of evaluation rows": "eba0182871feb868d746ba74ebf92efe9660bc05b1fe9ca5e47a6c80ea119263",
        "distilbert triple_loss": "7d5e125e8a8ad24693c57f6c43bf0a27514eadae133d34a755b76d8d0ee0d1c2",
        "mobilebert ib_transfer": "c0eaf46bb15dd0a67697804e23ea677d6435c4084b792251b16b8db5ab79c367",
        "bilstm vocabulary": "f92a11578efb2df0870e6a158aa6084a09f3701290d585f3ccc095cc970ae066",
        "pd masked_pretraining": "f04f681637be8ea7afe7572222e6d85b6f0557c8f36b9b8e4c2695ac45018c70",
        "mtdnn teacher_weights": "1057a9604e04b274da5a4de0c8f4b4868d9b230989f8c8c6a28221143cc5a755",
        "mtdnn ensemble_targets.rte": "46457dd1a425bd827085ef5af491e800cff1458cdc2f9b1d633ff0d53815e1ef",
    },
    "paper": {
        "kd general_start": "e262a6a825c78ec009d9638762a344c6170d5dabc97ca73978a7d992dd62ed1f",
        "minilm relations": "d09f8f0c4b421220329e196f5b6cf6c18c98da50cae0613f7920559a0a463b30",
        "distilbert triple_loss": "0f4746ab681074145f1032bca3888aed2cafd3d0f9734ee302544efd0ae33db0",
        "mobilebert ib_transfer": "8ff5f50fc7b4d9dc70c7e99ec472d5b813d2ba309d0a76e8fdd17b1a275dcded",
    },
    "short": {
        "moebert neuron_importance": "311ba895b1d1e55dbd9cbb0bd835e953de3b3817384df2084f208d4aaab6654e",
        "moebert neuron_importance of evaluation rows": "1196ae62ff79233d7dc3310876cc538c54e883f4abea02192d127067238e42ec",
        "bilstm vocabulary": "2d743e35b9dbd16505c1f97b80557c644d5188786cb22b4a9a3d3916dfcdd4f5",
        "mtdnn ensemble_targets.rte": "28d8df8981fb99ef60c547ca3df83c0cf29b0ae27cbc0c878cf11dbe1ef30e04",
    },
}
"""By recipe; of the others what differs from the common one."""


@pytest.fixture
def keys_of(tmp_path, monkeypatch):
    """``keys_of(recipe=...)``: label and name -> key of every artefact that some rows ask for, of weights with known hashes."""
    tiny.save_teacher(tmp_path / "teacher")
    tiny.save_teacher(tmp_path / "given", layers=2, hidden=12)
    glue = tiny.write_glue(tmp_path / "glue", ("rte",))
    (tmp_path / "text.txt").write_text("the cat runs in the house .\na bird sings on the old tree .\n" * 30)
    # random weights may be others with another torch; keys hold their hashes
    monkeypatch.setattr(checkpoints, "sha256_of", lambda file: hashlib.sha256(file.parent.name.encode()).hexdigest())

    def keys(**options):
        request = Request(
            ",".join(ROWS).format(folder=tmp_path),
            "rte",
            data=str(glue),
            teacher=str(tmp_path / "teacher"),
            corpus=(str(tmp_path / "text.txt"),),
            corpus_tokens=300,
            threads=1,
            results=tmp_path / "r",
            reports=tmp_path / "p",
            **options,
        )
        cells = [planned.cell for planned in build(request).cells]
        return {
            f"{cell.method} {name}" + (" of evaluation rows" if "validation" in cell.settings.values() else ""): key
            for cell in cells
            for name, key in cell.artefacts.items()
        }

    return keys


OPTIONS = {"common": {}, "paper": {"recipe": "paper"}, "short": {"numbers": (("batch_size", 16), ("max_length", 64))}}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.slow
def test_keys_are_those_that_were_first_published(keys_of, name):
    """One artefact of each kind, and what its key depends on: a wrong one would leave caches and records behind."""
    found = keys_of(**OPTIONS[name])
    assert found == KEYS["common"] | KEYS[name]


# what the cache holds is what was written


def test_what_stands_in_for_the_cache_is_replaced_and_the_original_stays(tmp_path, monkeypatch):
    slot = Slot("starts", "a" * 64, (), "thing")
    said = []

    def write(folder):
        (folder / cache.WEIGHTS).write_bytes(b"weights")
        return {"weights": hashlib.sha256(b"weights").hexdigest()}

    cache.keep(slot, write)
    original = slot.folder / cache.WEIGHTS
    original.write_bytes(b"others")
    monkeypatch.setattr(cache, "_CHECKED", set())
    with cache.isolated_cache([slot], tmp_path / "apart"):
        cache.keep(slot, write, say=said.append)
        assert (slot.folder / cache.WEIGHTS).read_bytes() == b"weights"
    assert original.read_bytes() == b"others"
    assert len(said) == 1
    with cache.isolated_cache([slot], tmp_path / "forgetful"):
        slot.forget()
        assert not slot.is_made
    assert original.read_bytes() == b"others"


ROW = f"shrinkbert/prototypes:{tiny.SHAPE}:start=text"


@pytest.fixture
def plugin(monkeypatch):
    """The package of a third party is installed in this process."""
    monkeypatch.syspath_prepend(PLUGIN)


@pytest.mark.slow
def test_artefacts_of_a_third_party_are_planned_made_and_recorded(bench, request_, plugin):
    request = request_(methods=ROW, tasks="rte", epochs=1.0)
    assert {"class means of rte", "tuned on text of rte"} <= {step.title for step in api.plan(request).todo_steps}
    assert api.run(request).exit_code == 0
    (record,) = (r for r in Store(request.results).records() if r.cell.method == "shrinkbert/prototypes")
    assert set(record.cell.artefacts) == {"class_means", "tuned_on_text"}
    for name, key in record.cell.artefacts.items():
        made = record.artefacts[name]
        assert made["key"] == key
        assert "shrinkbert" in made["code"]["of"]
        assert len(made["code"]["digest"]) == 64
    assert record.artefacts["tuned_on_text"]["train"]["tokens"] >= 300
    assert record.artefacts["tuned_on_text"]["text"] == {"files": ["corpus.txt"], "tokens": 300}
    assert set(record.artefacts["tuned_on_text"]["code"]["parts"]) == {"teacher"}
    assert not api.plan(request).todo_steps


def test_the_key_of_a_new_artefact_has_its_settings_and_all_its_inputs(request_, plugin, monkeypatch):
    import shrinkbert

    def identities(**options):
        entries = build(request_(methods=ROW, tasks="rte", **options)).artefacts
        return {entry.artefact.name: (entry.key, entry.identity) for entry in entries}

    before = identities()
    means, text = before["class_means"][1], before["tuned_on_text"][1]
    assert means["what"] == ["class_means", 1, {}]
    assert set(means) == {"schema", "what", "base", "data", "tokenizer", "max_length", "numeric"}
    assert text["what"][2] == {"shape": {"layers": 2, "hidden": 12, "heads": 4, "ffn": 24}}
    assert {"teacher", "corpus", "tokens", "recipe", "seed", "tokenizer", "numeric"} < set(text)
    rows, tokens = identities(max_train_rows=20), identities(corpus_tokens=200)
    assert rows["class_means"][0] != before["class_means"][0]
    assert rows["tuned_on_text"][0] != before["tuned_on_text"][0], "its teacher is tuned on other rows"
    assert tokens["class_means"][0] == before["class_means"][0]
    assert tokens["tuned_on_text"][0] != before["tuned_on_text"][0]
    monkeypatch.setattr(shrinkbert.ClassMeans, "version", 2)
    after = identities()
    assert after["class_means"][0] != before["class_means"][0]
    assert after["tuned_on_text"][0] == before["tuned_on_text"][0]


@dataclass(frozen=True)
class ReadsMore(Artefact):
    """It reads rows that its key would not depend on."""

    name: ClassVar[str] = "reads_more"

    def inputs(self, teacher):
        return (BASE,)

    def make(self, given):
        return {"first": next(iter(given.batches(TRAIN))).token_ids.float()}

    def blank(self, teacher, num_labels):
        return {"first": torch.zeros(1)}


@dataclass(frozen=True)
class SaysOtherTensors(Artefact):
    """Students would be counted with other tensors than they are built from."""

    name: ClassVar[str] = "says_other"

    def inputs(self, teacher):
        return (BASE,)

    def make(self, given):
        return {"weight": torch.zeros(3, 4)}

    def blank(self, teacher, num_labels):
        return {"weight": torch.zeros(3, 5)}


@pytest.mark.parametrize(
    ("artefact", "says"),
    [
        (ReadsMore(), "make reads .*train.*, which its inputs do not name"),
        (SaysOtherTensors(), "other tensors than blank"),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_wrong_artefact_is_found_by_the_checks_of_its_method(artefact, says):
    @dataclass(frozen=True, kw_only=True)
    class Asks(FineTune):
        start: Literal["random"] = "random"

        def requires(self, teacher):
            return (artefact,)

    (found,) = api.check_method(Asks, ["contract"])
    assert re.search(says, found.found)


@pytest.mark.slow
def test_a_third_partys_artefacts_pass_the_checks(bench, plugin):
    for row in ("shrinkbert/prototypes", "shrinkbert/prototypes:start=text"):
        checked = bench("check-method", row)
        assert checked.returncode == 0, checked.stdout + checked.stderr
