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
from bench.record.keys import digest
from bench.record.store import Store
from bench.request import Request
from methods.core.artefacts import BASE, TRAIN, Artefact
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
KEYS = {
    "common": "00e53a783f2d15b039beba7024c5a24c1d6f754d89206e3c2f91c92576543011",
    "paper": "c9d5336bf4b66c5d5d3ca0cb969ab548fd2e1c66f816292ec6e0ef9e82c4c628",
    "short": "5ddb0adf584a1a1797f50f0eee225e0cc69bfa19393874bd1205e997c2eae1ff",
}
"""By recipe: the hash of label and name -> key of every artefact."""


@pytest.fixture
def keys_of(tmp_path, monkeypatch):
    """``keys_of(recipe=...)``: label and name -> key of every artefact that some rows ask for, of weights with known hashes."""
    tiny.save_teacher(tmp_path / "teacher")
    tiny.save_teacher(tmp_path / "given", layers=2, hidden=12)
    glue = tiny.write_glue(tmp_path / "glue", ("rte",))
    (tmp_path / "text.txt").write_text(
        "the cat runs in the house .\na bird sings on the old tree .\n" * 30
    )
    # random weights may be others with another torch; keys hold their hashes
    monkeypatch.setattr(
        checkpoints, "sha256_of", lambda file: hashlib.sha256(file.parent.name.encode()).hexdigest()
    )

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
            f"{cell.method} {name}"
            + (" of evaluation rows" if "validation" in cell.settings.values() else ""): key
            for cell in cells
            for name, key in cell.artefacts.items()
        }

    return keys


OPTIONS = {
    "common": {},
    "paper": {"recipe": "paper"},
    "short": {"numbers": (("batch_size", 16), ("max_length", 64))},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.slow
def test_keys_are_those_that_were_first_published(keys_of, name):
    """One artefact of each kind, and what its key depends on: a wrong one would leave caches and records behind."""
    keys = keys_of(**OPTIONS[name])
    assert digest(keys) == KEYS[name], keys


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


def test_a_teacher_that_was_tuned_with_another_tokenizer_is_made_again():
    made = []

    def write(folder):
        made.append(1)
        (folder / cache.WEIGHTS).write_bytes(bytes(made))
        return {"weights": hashlib.sha256(bytes(made)).hexdigest()}

    before, after = (
        Slot("teachers", "a" * 64, (), "teacher", {"tokenizer": name})
        for name in ("cased", "uncased")
    )
    cache.keep(before, write)
    assert before.is_made
    assert not after.is_made
    cache.keep(after, write)
    cache.keep(after, write)
    assert len(made) == 2
    assert after.is_made
    assert not before.is_made


ROW = f"shrinkbert/prototypes:{tiny.SHAPE}:start=text"


@pytest.fixture
def plugin(monkeypatch):
    """The package of a third party is installed in this process."""
    monkeypatch.syspath_prepend(PLUGIN)


@pytest.mark.slow
def test_artefacts_of_a_third_party_are_planned_made_and_recorded(bench, request_, plugin):
    request = request_(methods=ROW, tasks="rte", epochs=1.0)
    assert {"class means of rte", "tuned on text of rte"} <= {
        step.title for step in api.plan(request).todo_steps
    }
    assert api.run(request).exit_code == 0
    (record,) = (
        r for r in Store(request.results).records() if r.cell.method == "shrinkbert/prototypes"
    )
    assert set(record.cell.artefacts) == {"class_means", "tuned_on_text"}
    for name, key in record.cell.artefacts.items():
        made = record.artefacts[name]
        assert made["key"] == key
        assert "shrinkbert" in made["code"]["of"]
        assert len(made["code"]["digest"]) == 64
    assert record.artefacts["tuned_on_text"]["train"]["tokens"] >= 300
    assert record.artefacts["tuned_on_text"]["text"] == {
        "files": ["corpus.txt"],
        "tokens": 300,
        "passes": 1.0,
    }
    assert set(record.artefacts["tuned_on_text"]["code"]["parts"]) == {"teacher"}
    assert not api.plan(request).todo_steps


def test_the_key_of_a_new_artefact_has_its_settings_and_all_its_inputs(
    request_, plugin, monkeypatch
):
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
    assert rows["tuned_on_text"][0] != before["tuned_on_text"][0], (
        "its teacher is tuned on other rows"
    )
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
