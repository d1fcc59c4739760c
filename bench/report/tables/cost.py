"""What each row costs: its training, the gradient of each of its terms, the size of its models, and
what rows that write texts take for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

from bench.record.cell import TEACHER
from bench.record.schema import Record, Sizes, TrainCost
from bench.report.study import Study
from bench.report.table import Column, Line, Table, TableCell, number
from bench.report.tables.parts import counted, line_of, listed

STUDENT_TIME = "student time (s)"
SHARED_TEACHER_TIME = "teacher time, shared (s)"
CPU_TIME = "CPU time (s)"
TEACHER_SHARE = "teacher's share of the time"
COSTS: Mapping[str, tuple[Callable[[TrainCost], float], float]] = {
    "examples": (lambda train: train.examples, 1),
    "student FLOPs (10^12)": (lambda train: train.flops_own, 1e12),
    "teacher FLOPs (10^12)": (lambda train: train.flops_teacher, 1e12),
    STUDENT_TIME: (lambda train: train.seconds_own, 1),
    SHARED_TEACHER_TIME: (lambda train: train.teacher_seconds_shared, 1),
    "teacher time, alone (s)": (lambda train: train.teacher_seconds_alone, 1),
}
"""Title of a column, in the order of the table -> how it is read from a training, and its unit.
Shared: the row's part of the teacher passes that it shared with other rows; alone: what the same
passes would have taken without sharing."""


NO_STARTS = (TEACHER, "augmentation")
"""Artefacts that are trained, or have a text, and no student begins with: augmented rows name their
masked head's."""


def trainings(study: Study, label: str) -> list[Record]:
    """One record for each training of a row: a student of several tasks has one a task, and was
    trained once."""
    return list({r.train_key: r for r in study.records_of(label) if r.train}.values())


def _summed(done: Sequence[Record], values: Iterable[float]) -> float:
    """A value of each training: the mean over the seeds of each task, summed over tasks, which may
    have different numbers of seeds."""
    by_tasks: dict[tuple[str, ...], list[float]] = {}
    for record, value in zip(done, values, strict=True):
        together = tuple(partner.task for partner in record.cell.together)
        by_tasks.setdefault(together or record.cell.tasks, []).append(value)
    return sum(sum(seeds) / len(seeds) for seeds in by_tasks.values())


def start_of(record: Record) -> str:
    """Where a student's weights came from before it saw the task: of the artefact that holds its
    first weights."""
    artefacts: dict[str, Mapping[str, Any]] = {}
    for name, artefact in record.artefacts.items():
        kind = name.partition(".")[0]
        if kind not in NO_STARTS:
            artefacts[kind] = artefact

    # trained ones and given ones hold first weights; else the teacher's are those
    kind = next((name for name, artefact in artefacts.items() if _holds_weights(artefact)), "")
    for teacher in ("tuned_teacher", "teacher_weights"):
        if not kind and teacher in artefacts:
            kind = teacher
    artefact = record.artefacts.get(kind, {})
    if "train" in artefact:
        return f"{kind.replace('_', ' ')} {artefact['key'][:6]}"
    if artefact.get("beginning", "").startswith(GIVEN):
        return str(artefact["beginning"])
    if record.cell.method == TEACHER:
        return "pre-trained weights"
    return TEACHER_STARTS.get(kind, kind.replace("_", " ") or "random weights")


def _holds_weights(artefact: Mapping[str, Any]) -> bool:
    """Whether an artefact was trained, was made from text, or was given."""
    is_given = artefact.get("beginning", "").startswith(GIVEN)
    return "train" in artefact or "text" in artefact or is_given


GIVEN = "given: "
TEACHER_STARTS = {
    "tuned_teacher": "the fine-tuned teacher",
    "teacher_weights": "the pre-trained teacher",
}


def cost(study: Study) -> Table | None:
    """What training each row took: the mean over the seeds of each task, summed over tasks."""
    rows: dict[str, list[Record]] = {}
    for label in study.rows:
        done = trainings(study, label)
        if done:
            rows[label] = done
    if not rows:
        return None
    has_cpu = _has_cpu_times(rows)
    lines = []
    for label, done in rows.items():
        starts = {start_of(record) for record in done}
        costs = _costs(done)
        cells = [TableCell(", ".join(sorted(starts))), number(len(done), "d")]
        # examples and seconds as whole numbers, FLOPs with two decimals
        for title, (_, unit) in COSTS.items():
            cells.append(number(costs[title], ",.0f" if unit == 1 else ".2f"))
        both = costs[STUDENT_TIME] + costs[SHARED_TEACHER_TIME]
        share = 100 * costs[SHARED_TEACHER_TIME] / both if both else None
        cells.append(number(share, ",.0f", " %"))
        if has_cpu:
            seconds = None if label == TEACHER else _cpu_seconds(done)
            cells.append(number(seconds, ",.0f"))
        lines.append(line_of(study, label, cells))
    titles = ["training runs", *COSTS, TEACHER_SHARE]
    if has_cpu:
        titles.append(CPU_TIME)
    heads = [Column("System"), Column("start", words=True)]
    heads += [Column(title) for title in titles]
    return Table("Cost of training", heads, lines, _cost_notes(study, has_cpu))


def _has_cpu_times(rows: Mapping[str, Sequence[Record]]) -> bool:
    """Whether there are students, and the processor time of all of them was measured."""
    trained: list[TrainCost] = []
    for label, done in rows.items():
        if label != TEACHER:
            trained += [record.train for record in done if record.train]
    return bool(trained) and all(train.cpu_seconds is not None for train in trained)


def _costs(done: Sequence[Record]) -> dict[str, float]:
    """Title of a column of costs -> its value for these trainings."""
    trained = [record.train for record in done if record.train]
    costs = {}
    for title, (read, unit) in COSTS.items():
        costs[title] = _summed(done, map(read, trained)) / unit
    return costs


def _cpu_seconds(done: Sequence[Record]) -> float:
    """The processor time of these trainings."""
    trained = [record.train for record in done if record.train]
    return _summed(done, [train.cpu_seconds or 0.0 for train in trained])


TRUNCATED = "the truncated teacher"
LEAST_SECONDS = 1.0
"""Artefacts that took less time, like a vocabulary, are not mentioned."""


ON_COSTS = (
    "The mean over the seeds of each task, summed over the tasks. Examples: those that the row saw "
    "in its training. An example counts once in each epoch, and stages before the recipe's epochs "
    "count too. FLOPs are computed in closed form from the number of tokens. Times were measured "
    "on the machine named below. Other programs, and other training runs of --jobs, may have run "
    "there at the same time. Teacher time, shared: students that train together share the "
    "teacher's forward passes. Alone: the time without this sharing. Start: what the row begins "
    "with. Pre-trainings on text are listed below by their keys."
)
ON_CPU_TIME = (
    f"{CPU_TIME}: processor time of the process, over all its threads, with reading and scoring. "
    "Students that trained together share it in proportion to the times of their own passes."
)
IN_NO_COLUMN = "No column of this table counts it."


def _cost_notes(study: Study, has_cpu: bool) -> list[str]:
    """How costs are counted, and what was made once for some rows and is in no column."""
    notes = [ON_COSTS]
    if has_cpu:
        notes.append(ON_CPU_TIME)
    return [*notes, *_computed_once(study), *_trained_once(study)]


def _computed_once(study: Study) -> list[str]:
    """A sentence for each kind of artefact that was computed before rows trained."""
    seconds: dict[str, dict[str, float]] = {}
    users: dict[str, set[str]] = {}
    for record in study.records:
        for name, artefact in record.artefacts.items():
            if artefact.get("seconds", 0) >= LEAST_SECONDS:
                kind = name.split(".")[0].replace("_", " ")
                seconds.setdefault(kind, {})[artefact["key"]] = artefact["seconds"]
                users.setdefault(kind, set()).add(record.cell.label)
    sentences = []
    for kind, of_kind in sorted(seconds.items()):
        rows = ", ".join(sorted(users[kind]))
        took = f"{sum(of_kind.values()):,.0f} s, once for all seeds"
        sentences.append(f"{kind.capitalize()}, for {rows}: {took}. {IN_NO_COLUMN}")
    return sentences


def _trained_once(study: Study) -> list[str]:
    """A sentence for each start that was pre-trained on text."""
    starts: dict[str, tuple[str, dict[str, Any]]] = {}
    for record in study.records:
        for name, artefact in record.artefacts.items():
            if "train" in artefact:
                starts[artefact["key"]] = (name, artefact)
    sentences = []
    for key, (name, artefact) in sorted(starts.items()):
        is_general = name == "general_start"
        kind = f"Pre-training on text, {name.replace('_', ' ')}"
        if is_general:
            kind = "General start"
        trained = artefact["train"]
        took = f"{trained['tokens']:,} tokens, {trained['seconds_own']:,.0f} s"
        sentence = (
            f"{kind} {key[:12]}: {took} (student passes only), made once for all rows that use it. "
            f"{IN_NO_COLUMN}"
        )
        # older records, and methods, call it otherwise
        beginning = artefact.get("beginning", TRUNCATED if is_general else "")
        beginning = beginning.replace("the cut-down teacher", TRUNCATED)
        if beginning:
            sentence += f" It starts from {beginning}."
        sentences.append(sentence)
    return sentences


IDLE_SHARE = 0.01
"""A term that never moves the weights by more than this part of its stage's gradients does not
matter."""
ON_SHARES = (
    "The norm of a weighted term's gradient, divided by the sum of these norms over the terms of "
    "the same stage and optimiser, at four steps; the mean over tasks and seeds. Only stages with "
    "several terms are shown. docs/methods.md explains the terms, in its section 'The names of the "
    "loss terms'."
)
Measured = dict[tuple[str, str, str], list[list[float]]]
"""(row, stage, term) -> its shares at the measured steps, of each training that has them"""


def gradient_shares(study: Study) -> Table | None:
    """How much of the gradient each term gives, by stage; terms that never matter are named."""
    measured = _measured_shares(study)
    if not measured:
        return None
    steps = 0
    for runs in measured.values():
        steps = max(steps, *(len(shares) for shares in runs))
    lines = []
    idle = []
    for (label, stage, term), runs in measured.items():
        points: list[float | None] = [None] * steps
        # a training with fewer measured steps than the columns has them at other parts of its stage
        if min(len(shares) for shares in runs) == steps:
            points = [100 * (sum(values) / len(values)) for values in zip(*runs, strict=True)]
        cells = [number(point, unit=" %") for point in points]
        lines.append(line_of(study, label, [TableCell(stage), TableCell(term), *cells]))
        if max(max(shares) for shares in runs) < IDLE_SHARE:
            count = counted(len(runs), "training run")
            idle.append(f"{label}: {term} in stage {stage} ({count})")
    notes = [ON_SHARES]
    if idle:
        where = f"{100 * IDLE_SHARE:.0f} %, on any task, seed or step that was measured"
        notes.append(
            f"**Never above {where}: {'; '.join(idle)}.** Such a term probably has little effect. "
            "An ablation without it shows whether that is so."
        )
    heads = [Column("System"), Column("stage", words=True), Column("term", words=True)]
    heads += [Column(f"after {100 * i // steps} %") for i in range(steps)]
    return Table("Gradient share of each term", heads, lines, notes)


def _measured_shares(study: Study) -> Measured:
    """The shares of all trainings, in stages with several terms."""
    measured: Measured = {}
    for label in study.rows:
        for record in trainings(study, label):
            for stage, terms in record.gradient_shares.items():
                for term, shares in terms.items():
                    if len(terms) > 1 and shares:
                        measured.setdefault((label, stage, term), []).append(shares)
    return measured


FILE = "file (MB)"
COUNTS: Mapping[str, tuple[float, Callable[[Sizes], float | None]]] = {
    "Params (M)": (1e6, lambda s: s.parameters),
    "active for a token (M)": (1e6, lambda s: s.active_parameters),
    "embedding (M)": (1e6, lambda s: s.embedding),
    "without embedding (M)": (1e6, lambda s: s.without_embedding),
    "pooler and head (M)": (1e6, lambda s: s.pooler_and_head),
    FILE: (1e6, lambda s: s.file_bytes),
    "MACs (G)": (1e9, lambda s: s.macs),
    "MACs, closed form (G)": (1e9, lambda s: s.macs_closed_form),
    "MACs, average over exits (G)": (1e9, lambda s: s.expected_macs),
    "FLOPs (G)": (1e9, lambda s: s.flops),
}
"""Title of a column -> its unit, and what is counted of a model."""
ELSE: Mapping[str, Callable[[Sizes], float]] = {
    "active for a token (M)": lambda s: s.parameters,
    FILE: lambda s: 4 * s.parameters,
    "MACs, average over exits (G)": lambda s: s.macs,
}
"""A column that is left out where no model has a count of its own -> what is counted of the other
models there."""
CLASSIFIER_SHARE = 0.01
"""Classification layers of two or three classes differ by a few hundred weights: by less than this
part of a model."""


def sizes(named: Sequence[tuple[str, Sizes]]) -> Table:
    """Parameters by convention and the two counts of MACs, for any models by name."""
    titles = []
    for title, (_, count) in COUNTS.items():
        if title not in ELSE or any(count(size) for _, size in named):
            titles.append(title)
    lines = []
    for name, size in named:
        cells = [number(_count(title, size), ".2f") for title in titles]
        lines.append(Line(name, cells))
    return Table("Sizes", [Column("System"), *map(Column, titles)], lines)


def _count(title: str, size: Sizes) -> float:
    """What a column of sizes counts of a model, in its unit."""
    unit, count = COUNTS[title]
    own = count(size)
    if own:
        return own / unit
    return ELSE[title](size) / unit if title in ELSE else 0.0


def sizes_of(study: Study) -> Table:
    """The sizes of a study's rows: one line a row; of models that differ in more than their
    classes, one line a task."""
    labels: list[str] = []
    names: list[str] = []
    named: list[tuple[str, Sizes]] = []
    for label in study.rows:
        for task, size in _models_of(study, label):
            labels.append(label)
            names.append(study.called(label) + task)
            named.append((label + task, size))
    table = sizes(named)
    lines = []
    for line, name, label in zip(table.lines, names, labels, strict=True):
        lines.append(replace(line, name=name, row=label))
    return replace(table, lines=lines)


def _models_of(study: Study, label: str) -> list[tuple[str, Sizes]]:
    """The models of a row that have lines of their own, each with what its name has behind the
    row's."""
    models: list[Sizes] = []
    first_of: dict[str, Sizes] = {}
    for task in study.tasks:
        of_task = [record.sizes for record in study.records_of(label, task) if record.sizes]
        models += of_task
        if of_task:
            first_of[task] = of_task[0]
    if not models:
        return []
    if need_own_lines(models):
        return [(f", {study.shown(task)}", size) for task, size in first_of.items()]
    return [("", min(models, key=lambda size: size.parameters))]


def models_differ(models: Sequence[Sizes]) -> bool:
    """Whether these models differ in more than the number of their classes: in their vocabulary, or
    in a head for pairs."""
    parameters = [s.parameters for s in models]
    bodies = {s.parameters - s.pooler_and_head for s in models}
    return len(bodies) > 1 or max(parameters) - min(parameters) > CLASSIFIER_SHARE * min(parameters)


def need_own_lines(models: Sequence[Sizes]) -> bool:
    """Whether these models need one line each in a table of sizes: other models, or sequences leave
    them at other layers."""
    return models_differ(models) or len({s.expected_macs for s in models}) > 1


BATCHES = {"batch_1": "batch 1", "batch_32": "batch 32"}
"""A batch, as records have it -> as the table prints it."""
OF_A_BATCH = {"ms_a_text": "ms a text", "tokens": "tokens"}
"""What is measured of a batch, likewise."""
OF_A_TOKEN = {
    "macs_of_read_token": "read token, MACs (M)",
    "macs_of_written_token": "written token, MACs (M)",
}
"""What is counted of a token, likewise."""


def writing(study: Study) -> Table | None:
    """What writing costs: a line for each row and task; means over seeds."""
    lines = []
    for label in study.rows:
        for task in study.tasks:
            measured = _measured_writing(study.records_of(label, task))
            if measured:
                line = line_of(study, label, _writing_cells(measured))
                if len(study.tasks) > 1:
                    line = replace(line, name=f"{line.name}, {study.shown(task)}", row=label)
                lines.append(line)
    if not lines:
        return None
    heads = [Column("System")]
    for batch in BATCHES.values():
        heads += [Column(f"{batch}, {what}") for what in OF_A_BATCH.values()]
    heads += [Column(title) for title in OF_A_TOKEN.values()]
    notes = [_on_writing(_measured_writing(study.records))]
    return Table("Writing", heads, lines, notes)


def _measured_writing(records: Iterable[Record]) -> list[Mapping[str, Any]]:
    """What was measured while these records wrote texts, of those that did."""
    measured = [record.usage.get("writing") for record in records]
    return [usage for usage in measured if usage]


def _writing_cells(measured: Sequence[Mapping[str, Any]]) -> list[TableCell]:
    """The cells of a line: means over what was measured."""
    cells = []
    for batch in BATCHES:
        for what in OF_A_BATCH:
            cells.append(number(mean(usage[batch][what] for usage in measured)))
    for what in OF_A_TOKEN:
        cells.append(number(mean(usage[what] for usage in measured) / 1e6, ".2f"))
    return cells


def _on_writing(measured: Sequence[Mapping[str, Any]]) -> str:
    """What the columns of the table of writing mean."""
    threads = listed(sorted({str(usage["threads"]) for usage in measured}))
    bleu = listed(sorted({usage["bleu"] for usage in measured}))
    return (
        "Times of the whole beam search, as the record's machine was when the row was scored: "
        "other programs may have run there, so they say how large a time is, no more; "
        f"{threads} thread. Tokens: mean length of what was written, without its end. MACs (M): of "
        "reading one token, and of writing one with one beam, both without attention. BLEU: "
        f"{bleu} (sacrebleu); ROUGE-L: F of rouge-score, no stemmer."
    )
