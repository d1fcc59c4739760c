"""A classifier that somebody has tuned, as the teacher of every method from every start, whatever its number of labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pandas
import pytest
import tiny
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
)

import methods
from bench import api
from bench.errors import OK, InputError
from bench.plan.spelling import settings_of
from bench.progress import Progress
from bench.run import carry_out
from methods.core.families import family_of_config

MORE = {"mtdnn": ":members=1"}
"""What a method has to be told beside the start and a small shape: one teacher that comes tuned is no ensemble."""


def rows_of(name: str) -> list[str]:
    """A method in a small shape, once for each start that it has."""
    kind = methods.get(name)
    settings = settings_of(kind)
    small = kind.tiny_settings or ({"layers": 2} if "layers" in settings else {})
    row = (
        name
        + "".join(f":{setting}={value}" for setting, value in small.items())
        + MORE.get(name, "")
    )
    if "start" not in settings:
        return [row]
    rows = []
    for start in get_args(settings["start"]):
        shape = row
        if start in ("layers", "lowest"):
            # whole layers of the teacher, of the teacher's width
            shape = f"{name}:layers=2:hidden=24:heads=4:ffn=48{MORE.get(name, '')}"
        rows.append(f"{shape}:start={start}")
    return rows


def five_labels(folder: Path) -> str:
    """A task of its own with five labels."""
    sentences = [
        f"the {animal} {verb}" for animal in ("cat", "dog", "bird", "fish") for verb in tiny.WORDS
    ]
    rows = pandas.DataFrame(
        {"sentence": sentences[:40], "label": [f"l{row % 5}" for row in range(40)]}
    )
    for name in ("rows.csv", "scored.csv"):
        rows.to_csv(folder / name, index=False)
    (folder / "five.toml").write_text(
        'name = "five"\ntrain = "rows.csv"\nvalidation = "scored.csv"\ntext = ["sentence"]\nmetrics = ["accuracy"]\n'
        f"labels = {[f'l{label}' for label in range(5)]}\n"
    )
    return str(folder / "five.toml")


@pytest.mark.slow
def test_every_method_from_every_start_learns_from_a_tuned_classifier(tmp_path):
    teacher = tiny.save_teacher(tmp_path / "teacher", BertForSequenceClassification, 5, layers=4)
    (tmp_path / "corpus.txt").write_text(
        "the cat runs in the house .\na bird sings on the old tree .\n" * 30
    )
    rows = [row for name in methods.TABLE for row in rows_of(name)]
    request = api.Request(
        methods=",".join(rows),
        tasks=five_labels(tmp_path),
        data=str(tmp_path),
        teacher=str(teacher),
        results=tmp_path / "results",
        reports=tmp_path / "reports",
        corpus=(str(tmp_path / "corpus.txt"),),
        corpus_tokens=300,
        epochs=1.0,
        augment="masked",  # reads the teacher too: its words come from its encoder
        augment_times=1,
    )
    plan = api.plan(request)
    assert {cell.method for cell in (planned.cell for planned in plan.todo)} == {
        *methods.TABLE,
        "teacher",
    }
    # a run without its report, which takes longer than the training
    assert carry_out(plan, Progress()).exit_code == OK
    assert not api.plan(request).todo


SPECIAL = {f"{name}_token_id": 0 for name in ("pad", "cls", "sep", "bos", "eos")}
CUT = "pkd,droplayers,layerdrop,theseus,magnitude,distilbert,mtdnn"
# of classes of our own over the family's
OWN = "moebert,fisher:examples=20,cofi:whole_until=0.3,dynabert,fastbert,q8bert,ternarybert"
OTHERS = {
    "modernbert": {"local_attention": 4, **SPECIAL},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "type_vocab_size": 0,
    },
    "roberta": {"type_vocab_size": 1, "pad_token_id": 0},
    "electra": {"embedding_size": 12},
    "mpnet": {"pad_token_id": 0},
}


@pytest.mark.slow
@pytest.mark.parametrize("family", OTHERS)
def test_a_teacher_of_another_family_teaches_what_it_gives(family, tmp_path):
    """Packed it teaches attention too; padded it does not. A row that asks a teacher for what it has not is refused before anything
    starts. Students made of a teacher's layers are of its family, and are opened again."""
    tokenizer = tiny.tokenizer(tiny.save_teacher(tmp_path / "bert"))
    sizes = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size")
    shape = {name: vars(tiny.config())[name] for name in sizes}
    config = AutoConfig.for_model(family, num_hidden_layers=4, **shape, **OTHERS[family])
    AutoModel.from_config(config).save_pretrained(tmp_path / "teacher")
    tokenizer.save_pretrained(tmp_path / "teacher")
    tiny.write_glue(tmp_path, ("rte",))
    (tmp_path / "corpus.txt").write_text("the cat runs in the house .\n" * 30)
    heads = config.num_attention_heads
    small = f"layers=2:hidden={8 * heads}:heads={heads}:ffn=32"
    rows = [
        f"kd:{small}",
        f"microbert:start=random:{small}",
        f"tinybert:start=random:{small}:-attn",
    ]
    refused = []
    (refused if family == "deberta-v2" else rows).extend(
        [f"minilmv2:{small}", f"tinybert:start=random:{small}"]
    )
    made = f"{CUT},{OWN}".split(",")
    (rows if family in ("roberta", "electra", "mpnet") else refused).extend(made)
    if family == "modernbert":  # nothing is cut out of it
        rows.append(refused.pop(refused.index("mtdnn")))
    request = api.Request(
        methods=",".join(rows),
        tasks="rte",
        data=str(tmp_path),
        teacher=str(tmp_path / "teacher"),
        results=tmp_path / "results",
        reports=tmp_path / "reports",
        corpus=(str(tmp_path / "corpus.txt"),),
        corpus_tokens=300,
        epochs=1.0,
        save_students=tmp_path / "students",
    )
    for row in refused:
        with pytest.raises(
            InputError, match=f"{family} as a teacher does not give|this teacher is a {family}"
        ):
            api.plan(replace(request, methods=row))
    plan = api.plan(request)
    begins_at_random = any(
        "begins with random weights, because only bert" in note for note in plan.notes
    )
    assert begins_at_random == (family not in ("roberta", "electra", "mpnet"))
    assert carry_out(plan, Progress()).exit_code == OK
    assert not api.plan(request).todo
    saved = list((tmp_path / "students").glob("*/rte/*"))
    assert len(saved) > len(rows)
    for folder in saved:
        model = AutoModelForSequenceClassification.from_pretrained(folder)
        method = folder.name.split("-")[0]
        assert (model.config.model_type == family) == (method in (*CUT.split(","), "teacher"))
        assert model.config.model_type.endswith(f"_{family}") == (f"{method}" in OWN)


def test_a_family_under_another_name_gives_what_it_gives():
    """XLM-R and CamemBERT are RoBERTas. BigBird and MegatronBERT are no BERTs, though their models have its prefix."""
    families = {"xlm-roberta": "roberta", "camembert": "roberta", "bert": "bert", "deberta-v2": ""}
    families |= dict.fromkeys(("big_bird", "megatron-bert", "xlm-roberta-xl", "xmod"), "")
    assert {name: family_of_config(AutoConfig.for_model(name)) for name in families} == families
