"""Printed numbers: well-formed, of systems that exist, and never called comparable when they are not."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import factories
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig

from bench.data.tasks import GLUE
from bench.plan.spelling import defaults, parse_one
from bench.record.cell import Partner, Selection
from bench.record.keys import digest
from bench.record.schema import Record, Sizes
from bench.record.store import Store
from bench.report.groups import ReportGroup, groups
from bench.report.published import Published, published
from bench.report.systems import counted_shape, shape_of, start_kind
from bench.report.tables.provenance import compared_with_papers, reasons

ROOT = Path(__file__).resolve().parents[2]
BERT_BASE = "google-bert/bert-base-uncased"
UNTUNED = {"teacher_weights": {"key": "1" * 64}}
GENERAL = {"general_start": {"key": "2" * 64, "train": {"tokens": 9}, "text": {"files": ["a.txt"], "tokens": 9}}}


@pytest.mark.slow
def test_every_printed_number_names_a_row_and_a_column_that_exist():
    assert len(published()) > 200
    for paper in published():
        if paper.row != "teacher":
            assert parse_one(paper.row).spelling == paper.row
        task = GLUE[paper.task]
        assert paper.evaluation in {e.name for e in task.evaluation}
        assert paper.metric in {*task.metrics, "accuracy", "f1", "unknown"}
        assert paper.split in ("dev", "test", "unknown")
        assert paper.augmented in ("yes", "no", "unknown")
        assert -100 <= paper.value <= 100
        assert all((paper.source, paper.table, paper.system, paper.start, paper.text, paper.teacher))


SPELLED_OTHERWISE = {"successor_of_mnli": "theseus", "masked_pretraining": "finetune"}
"""Starts of papers that no setting of that method makes here: such rows are never comparable."""


def test_the_facts_of_a_printed_system_are_those_of_its_spelling():
    """With BERT-base as the teacher its row here wants that start and builds that depth."""
    for done in {(p.row, p.start, p.layers): p for p in published() if p.row != "teacher"}.values():
        method = parse_one(done.row).method
        wished = {wish.name for wish in method.requires(BertConfig())}
        if SPELLED_OTHERWISE.get(done.start) != done.row.partition(":")[0] and done.start != "unknown":
            assert done.start in wished, done
        if "layers" in defaults(type(method)):
            assert done.layers == (method.layers or 6), done
        if "hidden" in defaults(type(method)):
            assert done.hidden == method.hidden, done
        assert (done.text != "none") == (done.start not in ("teacher_weights", "tuned_teacher", "successor_of_mnli")), (
            done
        )


def sizes(layers: int, hidden: int, ffn: int, classes: int = 2, vocabulary: int = 30522, length: int = 128) -> Sizes:
    """The counts of a BERT classifier in closed form."""
    embedding = (vocabulary + 512 + 2 + 2) * hidden
    head = (hidden + 1) * (hidden + classes)
    body = layers * (4 * hidden**2 + 9 * hidden + ffn * (2 * hidden + 1))
    by_token = layers * (4 * hidden**2 + 2 * hidden * ffn)
    macs = length * by_token + 2 * length**2 * hidden * layers + hidden**2 + classes * hidden
    return Sizes(
        parameters=embedding + body + head,
        embedding=embedding,
        pooler_and_head=head,
        macs=macs,
        macs_closed_form=macs,
        sequence_length=length,
        batch=1,
        attention="eager",
        counter="fvcore",
    )


@settings(deadline=None)
@given(
    st.integers(1, 48), st.integers(8, 2048), st.integers(1, 8192), st.integers(1, 3), st.sampled_from([32, 128, 512])
)
def test_a_shape_is_read_off_the_counts(layers, hidden, ffn, classes, length):
    counts = sizes(layers, hidden, ffn, classes, length=length)
    assert counted_shape(counts) == (layers, hidden)
    for off in (-1, 1):  # of no BERT
        assert counted_shape(counts.model_copy(update={"macs_closed_form": counts.macs + off})) is None


def test_the_counted_shapes_of_the_committed_records_are_their_own():
    found = {r.cell.method: shape_of(r) for r in Store(ROOT / "results" / "reference").records() if r.sizes}
    for record in Store(ROOT / "results" / "reference").records():
        named = tuple(record.cell.settings.get(name) for name in ("layers", "hidden"))
        if record.sizes and None not in named and (counted := counted_shape(record.sizes)) is not None:
            assert counted == named
    # half and all of the teacher's six layers of 384, of which the settings say nothing
    assert {found[name] for name in ("pkd", "distilbert", "theseus")} == {(3, 384)}
    assert {found[name] for name in ("moebert", "teacher")} == {(6, 384)}


def test_sizes_of_other_models_say_nothing():
    counts = sizes(4, 312, 1200)
    assert counted_shape(counts.model_copy(update={"pooler_and_head": 1026})) is None
    assert counted_shape(counts.model_copy(update={"parameters": counts.parameters + 7})) is None


def ours(label: str, task: str = "rte", artefacts: dict[str, Any] | None = None, **changes: Any) -> Record:
    """A record of a row typed like this, with all settings, on a development set of GLUE's size; six layers of 768."""
    plain = factories.record("teacher" if label == "teacher" else "kd", task, score=0.7)
    row = parse_one(changes.pop("spelling", label)) if label != "teacher" else None
    rows = {"train": 2490, "validation": 277 if task == "rte" else 408}
    cell = plain.cell.model_copy(
        update={
            "label": label,
            "method": label.split(":")[0].split(" ")[0],
            "settings": row.settings if row else {"origin": "fine-tuned"},
            "dropped": row.dropped if row else (),
            "data": plain.cell.data.model_copy(update={"rows": rows}),
            "teacher": plain.cell.teacher.model_copy(update={"name": changes.pop("teacher", BERT_BASE)}),
            **{name: changes.pop(name) for name in ("ablation_of", "selection", "together") if name in changes},
        }
    )
    update = {
        "cell": cell,
        "artefacts": {"teacher": {"key": "3" * 64}, **(artefacts or {})},
        "sizes": sizes(6, 768, 3072),
    }
    return plain.model_copy(update=update | changes | {"key": digest([label, task, str(artefacts)])})


def group_of(*records: Record) -> ReportGroup:
    (found,) = groups(records)
    return found


def printed(system: str, task: str = "rte", source: str = "") -> Published:
    return next(p for p in published() if (p.system, p.task) == (system, task) and p.source.startswith(source))


def why(record: Record, paper: Published, *others: Record) -> list[str]:
    group = group_of(record, *others)
    column = next(c for c in group.columns if c.task == paper.task)
    return reasons(group, record.cell.label, column, paper)


def pairs(*records: Record) -> dict[tuple[str, str], str]:
    """(row, printed system) -> whether they are comparable, as the table says."""
    table = compared_with_papers(group_of(*records), published())
    both = zip(table.rows, table.values, strict=True) if table else ()
    return {(typed[1], row[4].split(";")[0]): row[-1] for row, typed in both}


SKIP = "BERT-6 PKD-Skip"


@pytest.mark.parametrize("label", ["pkd", "pkd:layers=6"])
@pytest.mark.parametrize("teacher", ["bert-base-uncased", BERT_BASE])
def test_the_same_system_is_comparable_however_it_is_spelled(label, teacher):
    record = ours(label, artefacts=UNTUNED, teacher=teacher)
    assert pairs(record)[label, SKIP] == "yes"
    assert pairs(ours("teacher", teacher=teacher))["teacher", "BERT-12 teacher"] == "yes"


@pytest.mark.parametrize(
    ("label", "changes", "reason"),
    [
        ("pkd", {"teacher": "somebody/bert-base-uncased"}, "other teacher"),
        ("pkd:layers=3", {}, "3 layers, theirs 6"),
        ("pkd", {"sizes": sizes(3, 768, 3072)}, "3 layers, theirs 6"),
        ("pkd", {"sizes": sizes(6, 384, 1536)}, "width 384, theirs 768"),
        ("pkd", {"sizes": None}, "layers not known from the record"),
        ("pkd", {"artefacts": {}}, "other start (theirs the pre-trained teacher's weights, ours random weights)"),
        ("pkd", {"artefacts": GENERAL}, "ours the general start)"),
        ("pkd", {"artefacts": {"tuned_teacher": {"key": "4"}}}, "ours the fine-tuned teacher's weights)"),
        ("pkd", {"selection": Selection(rule="dev", rows={"rte": "5" * 64})}, "chosen on development examples"),
        ("pkd", {"together": (Partner(task="rte", train="1", teacher="2"),)}, "learned several tasks together"),
    ],
)
def test_one_difference_makes_a_pair_not_comparable(label, changes, reason):
    record = ours(label, **{"artefacts": UNTUNED, **changes})
    assert reason in "; ".join(why(record, printed(SKIP)))
    assert pairs(record)[label, SKIP].startswith("no: ")


def test_what_papers_do_not_say_is_never_comparable():
    record, paper = ours("pkd", artefacts=UNTUNED), printed(SKIP)
    assert why(record, paper) == []
    for name, unknown, reason in (
        ("start", "unknown", "start not stated"),
        ("layers", None, "layers not stated"),
        ("hidden", None, "width not stated"),
        ("teacher", "unknown", "teacher not stated"),
        ("augmented", "unknown", "augmentation not stated"),
        ("augmented", "yes", "theirs with augmented training data"),
        ("text", "unknown", "pre-training text not stated"),
        ("split", "test", "test set, ours is dev"),
        ("split", "unknown", "split not stated"),
        ("metric", "f1", "F1, ours is acc"),
        ("metric", "unknown", "metric not stated"),
    ):
        assert why(record, paper._replace(**{name: unknown})) == [reason]
    augmented = ours("pkd", artefacts=UNTUNED)
    group = dataclasses.replace(group_of(augmented), slug="folder-glue-rules-augmented-2")
    assert reasons(group, "pkd", group.columns[0], paper) == ["ours with augmented training data"]
    assert "fewer training examples" in why(factories.limited(record, 9, 9), paper)
    few = record.cell.data.model_copy(update={"rows": {"train": 40, "validation": 40}})
    assert why(record.model_copy(update={"cell": record.cell.model_copy(update={"data": few})}), paper) == [
        "not GLUE's development set"
    ]


def test_a_second_step_alone_is_not_the_whole_of_a_paper():
    """Sanh et al.: pre-training with three losses, then plain fine-tuning."""
    paper = printed("DistilBERT", source="Sanh")
    for label in ("distilbert", "distilbert:layers=6"):
        alone = ours(label, artefacts=UNTUNED)
        assert why(alone, paper)[0] == (
            "other start (theirs a pre-training of its own, triple loss, ours the pre-trained teacher's weights)"
        )
        assert pairs(alone)[label, "DistilBERT"].startswith("no: ")
    whole = {"triple_loss": {"key": "6", "train": {"tokens": 9}, "text": {"files": ["wiki.txt"], "tokens": 4_000_000}}}
    both = ours("distilbert:pretraining=masked:-cos:-soft", artefacts=whole)
    assert why(both, paper) == [
        "other pre-training text (theirs Wikipedia and books, ours 4,000,000 tokens of wiki.txt)"
    ]
    silent = ours("distilbert:pretraining=masked:-cos:-soft", artefacts={"triple_loss": {"key": "6", "train": {}}})
    assert why(silent, paper) == ["pre-training text not known from the record"]
    assert why(silent, paper, both) == why(both, paper, silent)  # one start, and another record of it names the text


def test_starts_that_are_not_the_printed_ones():
    random = pairs(ours("mobilebert"))["mobilebert", "MobileBERT_TINY"]
    assert "other start (theirs a pre-training of its own, ib transfer, ours random weights)" in random
    masked = "other start (theirs a pre-training of its own, masked pretraining, ours the general start)"
    for label, system in (("pd", "PD"), ("finetune", "BERT_TINY")):
        assert masked in pairs(ours(label, "mrpc", artefacts=GENERAL))[label, system]


def test_variants_that_nobody_printed_are_left_out_and_printed_ones_found():
    without = ours("pkd:-patience", artefacts=UNTUNED)
    assert pairs(without) == {("pkd:-patience", "BERT-6 KD"): "yes"}
    assert pairs(ours("pkd:alpha=0.2", artefacts=UNTUNED)) == {}
    assert pairs(ours("pkd:pace=2", artefacts=UNTUNED)) == {}
    assert pairs(ours("pkd", artefacts=UNTUNED))["pkd", "BERT-6 KD"] == "no: other settings (theirs without patience)"
    assert (
        "ours with ffn=600"
        in pairs(ours("tinybert:ffn=600", artefacts=GENERAL, sizes=sizes(4, 312, 600)))["tinybert:ffn=600", "TinyBERT4"]
    )


def test_an_ablation_is_what_its_full_row_was_without_the_term():
    named = {"spelling": "pkd:-patience", "ablation_of": "pkd", "artefacts": UNTUNED}
    full, ablation = ours("pkd", artefacts=UNTUNED), ours("pkd w/o patience", **named)
    assert pairs(full, ablation)["pkd w/o patience", "BERT-6 KD"] == "yes"
    assert pairs(ablation)["pkd w/o patience", "BERT-6 KD"] == "no: settings not known from the record"
    other = ours("pkd w/o patience", **{**named, "spelling": "pkd:alpha=0.2:-patience"})
    assert ("pkd w/o patience", "BERT-6 KD") not in pairs(full, other)


def test_a_student_of_several_tasks_has_the_start_of_its_own_name():
    assert start_kind(ours("pkd", artefacts={"tuned_teacher.rte": {"key": "1"}})) == "tuned_teacher"
    assert start_kind(ours("kd", artefacts={"given_start": {"key": "1", "beginning": "given: x"}})) == "given_start"
    assert start_kind(ours("bilstm", artefacts={"vocabulary": {"key": "1", "seconds": 1.0}})) == "random"
    rows = {"augmentation.rte": {"key": "1", "text": {"tokens": 1, "files": []}}}
    assert start_kind(ours("finetune", artefacts=rows | {"teacher_weights": {"key": "2"}})) == "teacher_weights"


def test_generated_data_is_never_beside_a_paper():
    assert compared_with_papers(dataclasses.replace(group_of(ours("pkd")), slug="sample-v1"), published()) is None


def test_a_printed_system_has_one_shape_and_one_teacher():
    facts: dict[tuple[str, str, str], set] = {}
    for paper in published():
        known = (paper.hidden, paper.teacher, paper.augmented)
        facts.setdefault((paper.source, paper.table, paper.system), set()).add(known)
    assert {len(found) for found in facts.values()} == {1}
    assert all(math.isfinite(paper.value) for paper in published())
