"""A trained student as a folder: weights, configuration, tokenizer, and a card that says where it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.data.checkpoints import OURS, tokenizer_of
from bench.data.tasks import Task
from bench.files import folder_in_place_of, slug
from bench.make.span_heads import as_question_answering
from bench.make.work import FailedCell, StepResult, Work
from bench.plan.commands import scoring_again
from bench.plan.plan import TaskPlan
from bench.plan.request import SAMPLE
from bench.record.recipe import optimizers_of
from bench.record.schema import Record
from methods.models import reads_texts


def folder_for(root: Path, record: Record) -> Path:
    """``<data>/<task>/<row>-seed-<n>-<beginning of the record's key>``."""
    cell = record.cell
    name = f"{slug(record.row)}-seed-{cell.seed}-{record.key[:8]}"
    return root / slug(cell.data.slug) / slug("+".join(cell.tasks)) / name


def export_student(root: Path, model: Any, tokenizer: Any, record: Record, task: Task) -> Path:
    """Write a deployed model, as its record has it, as a folder; what lay there before is replaced by all of it.

    Raises:
        OSError: it cannot be written; nothing is left behind. A model of somebody's own may raise other errors.
    """
    final = folder_for(root, record)
    if task.spans:
        model = as_question_answering(model)
    elif not task.regression:
        model.config.id2label = dict(enumerate(task.labels))
        model.config.label2id = {name: code for code, name in enumerate(task.labels)}
    if not task.spans:
        model.config.problem_type = "regression" if task.regression else "single_label_classification"
    own = {"method": record.cell.method, "row": record.row, "record": record.key, "seed": record.cell.seed}
    setattr(model.config, OURS, {**own, "max_length": record.cell.recipe["max_length"]})
    with folder_in_place_of(final) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "README.md").write_text(card(record, model), encoding="utf-8")
    return final


def save_where_asked(work: Work, result: StepResult, record: Record, model: Any, task: TaskPlan) -> None:
    """Write the model of a record as a folder, if the run saves them; a failure is noted and costs nothing that was trained."""
    if work.save_to is None:
        return
    try:
        work.progress.say(
            f"saved: {export_student(work.save_to, model, tokenizer_of(task.checkpoint), record, task.task)}"
        )
    except Exception as error:  # a full disk, a model that cannot be saved
        why = f"trained and recorded, but not saved in {work.save_to}: {error}"
        result.not_saved.append(FailedCell(task.name, record.row, record.cell.seed, why))


def card(record: Record, model: Any) -> str:
    """The model's page: what it is, what it scored, its record, and how to open it."""
    cell, kind = record.cell, type(model)
    scores = "; ".join(
        f"{name}: " + ", ".join(f"{metric} {100 * value:.1f} %" for metric, value in found.items())
        for name, found in record.scores.items()
    )
    sizes = record.sizes
    counted = "not measured"
    if sizes is not None:
        counted = f"{sizes.parameters / 1e6:.2f} M parameters, {sizes.flops / 1e9:.2f} G FLOPs"
        counted += f" of a sequence of {sizes.sequence_length} tokens"
    partners = f", one student of {', '.join(partner.task for partner in cell.together)}" if cell.together else ""
    learned = f"{cell.data.name}, {cell.data.rows['train']:,} examples; seed {cell.seed}; recipe {cell.recipe['name']}"
    others = optimizers_of(cell.recipe)
    learned += f", optimizer {', '.join(others)}" if others else ""
    rows = [
        ("row", f"`{record.row}`"),
        ("task", "+".join(cell.tasks) + partners),
        ("trained on", learned),
        ("teacher", f"{cell.teacher.name}, {cell.teacher.origin}"),
        ("development set", scores or "no labels"),
        ("size", counted),
        ("record", f"`{record.key}`; sha256 of the weights as tensors `{record.weights}`"),
        ("code", f"bert-bench {record.code.get('version')}, commit {str(record.code.get('commit'))[:12]}"),
    ]
    spans = "ForQuestionAnswering" in kind.__name__
    pipeline = "question-answering" if spans else "text-classification"
    opener = "AutoModelForQuestionAnswering" if spans else "AutoModelForSequenceClassification"
    answers = 'logits = model(**tokenizer(["a text"], return_tensors="pt")).logits'
    if spans:
        answers = (
            'answer = model(**tokenizer("a question", "its text", return_tensors="pt"))  # start_logits, end_logits'
        )
    lines = ["---", "library_name: transformers", f"pipeline_tag: {pipeline}", "---", ""]
    lines += [f"# {record.row} on {'+'.join(cell.tasks)}", ""]
    if cell.data.slug.startswith(f"{SAMPLE}-"):
        lines += ["**Trained on generated sample data, not GLUE.**", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows), ""]
    lines += [f"- {note}" for note in record.notes]
    own = not kind.__module__.startswith("transformers.")
    in_words = reads_texts(model)
    lines += [
        "",
        f"    from transformers import {opener}{'' if in_words else ', AutoTokenizer'}",
        *([f"    import {kind.__module__}  # {kind.__name__}: with bert-bench installed"] if own else []),
        f'    model = {opener}.from_pretrained("THIS-FOLDER").eval()',
        *(
            ['    logits = model.of_texts([("a text", "a second one or None")])']
            if in_words
            else [
                '    tokenizer = AutoTokenizer.from_pretrained("THIS-FOLDER")',
                f"    {answers}",
            ]
        ),
        "",
        f"To score it again next to other rows: `{scoring_again(cell)}`.",
    ]
    return "\n".join(lines) + "\n"
