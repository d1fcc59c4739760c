"""Artefacts: their keys as they were first published, the check of what the cache holds, and one that a third party adds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import tiny

from bench.data import checkpoints
from bench.plan.build import build
from bench.plan.request import Request

ROOT = Path(__file__).resolve().parents[1]
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
        cells = [planned.cell for planned in build(request, estimated=False).cells]
        return {
            f"{cell.method} {name}" + (" of evaluation rows" if "validation" in cell.settings.values() else ""): key
            for cell in cells
            for name, key in cell.artefacts.items()
        }

    return keys


OPTIONS = {"common": {}, "paper": {"recipe": "paper"}, "short": {"numbers": (("batch_size", 16), ("max_length", 64))}}


@pytest.mark.parametrize("name", OPTIONS)
def test_keys_are_those_that_were_first_published(keys_of, name):
    """One artefact of each kind, and what its key depends on: a wrong one would leave caches and records behind."""
    found = keys_of(**OPTIONS[name])
    assert found == KEYS["common"] | KEYS[name]
