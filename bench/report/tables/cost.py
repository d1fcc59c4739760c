"""What each row costs: its training, the gradient of each of its terms, the size of its models, and what rows that write texts take
for it."""

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

STUDENT_TIME, SHARED_TEACHER_TIME, CPU_TIME = (
    "student time (s)",
    "teacher time, shared (s)",
    "CPU time (s)",
)
COSTS: Mapping[str, tuple[Callable[[TrainCost], float], float]] = {
    "examples": (lambda train: train.examples, 1),
    "student FLOPs (10^12)": (lambda train: train.flops_own, 1e12),
    "teacher FLOPs (10^12)": (lambda train: train.flops_teacher, 1e12),
    STUDENT_TIME: (lambda train: train.seconds_own, 1),
    SHARED_TEACHER_TIME: (lambda train: train.teacher_seconds_shared, 1),
    "teacher time, alone (s)": (lambda train: train.teacher_seconds_alone, 1),
}
"""Title of a column, in the order of the table -> how it is read from a training, and its unit. Shared: the row's part of the
teacher passes that it shared with other rows; alone: what the same passes would have taken without sharing."""


NO_STARTS = (TEACHER, "augmentation")
"""Artefacts that are trained, or have a text, and no student begins with: augmented rows name their masked head's."""


def trainings(study: Study, label: str) -> list[Record]:
    """One record for each training of a row: a student of several tasks has one a task, and was trained once."""
    return list({r.train_key: r for r in study.records_of(label) if r.train}.values())


def _summed(done: Sequence[Record], values: Iterable[float]) -> float:
    """A value of each training: the mean over the seeds of each task, summed over tasks, which may have different numbers of seeds."""
    by_tasks: dict[tuple[str, ...], list[float]] = {}
    for record, value in zip(done, values, strict=True):
        together = tuple(partner.task for partner in record.cell.together)
        by_tasks.setdefault(together or record.cell.tasks, []).append(value)
    return sum(sum(seeds) / len(seeds) for seeds in by_tasks.values())


def start_of(record: Record) -> str:
    """Where a student's weights came from before it saw the task: of the artefact that holds its first weights."""
    own = {
        name.partition(".")[0]: artefact
        for name, artefact in record.artefacts.items()
        if name.partition(".")[0] not in NO_STARTS
    }
    said = [
        n
        for n, a in own.items()
        if "train" in a or "text" in a or a.get("beginning", "").startswith("given: ")
    ]
    kind = next((name for name in (*said, "tuned_teacher", "teacher_weights") if name in own), "")
    artefact = record.artefacts.get(kind, {})
    if "train" in artefact:
        return f"{kind.replace('_', ' ')} {artefact['key'][:6]}"
    if artefact.get("beginning", "").startswith("given: "):
        return str(artefact["beginning"])
    if record.cell.method == TEACHER:
        return "pre-trained weights"
    words = {
        "tuned_teacher": "the fine-tuned teacher",
        "teacher_weights": "the pre-trained teacher",
    }
    return words.get(kind, kind.replace("_", " ") or "random weights")


def cost(study: Study) -> Table | None:
    """What training each row took: the mean over the seeds of each task, summed over tasks."""
    rows = {label: done for label in study.systems if (done := trainings(study, label))}
    if not rows:
        return None
    students = [
        r.train for label, done in rows.items() if label != TEACHER for r in done if r.train
    ]
    has_cpu = bool(students) and all(train.cpu_seconds is not None for train in students)
    lines = []
    for label, done in rows.items():
        trained = [record.train for record in done if record.train]
        costs = {
            title: _summed(done, map(read, trained)) / unit for title, (read, unit) in COSTS.items()
        }
        cells = [TableCell(", ".join(sorted({start_of(r) for r in done}))), number(len(done), "d")]
        # examples and seconds as whole numbers, FLOPs with two decimals
        cells += [
            number(costs[title], ",.0f" if unit == 1 else ".2f")
            for title, (_, unit) in COSTS.items()
        ]
        both = costs[STUDENT_TIME] + costs[SHARED_TEACHER_TIME]
        cells.append(
            number(100 * costs[SHARED_TEACHER_TIME] / both if both else None, ",.0f", " %")
        )
        if has_cpu:
            own = (
                None
                if label == TEACHER
                else _summed(done, (train.cpu_seconds or 0.0 for train in trained))
            )
            cells.append(number(own, ",.0f"))
        lines.append(line_of(study, label, cells))
    heads = [Column("System"), Column("start", words=True)]
    heads += map(
        Column,
        ("training runs", *COSTS, "teacher's share of the time", *([CPU_TIME] if has_cpu else [])),
    )
    return Table("Cost of training", heads, lines, _cost_notes(study, has_cpu))


TRUNCATED = "the truncated teacher"
LEAST_SECONDS = 1.0
"""Artefacts that took less time, like a vocabulary, are not mentioned."""


def _cost_notes(study: Study, has_cpu: bool) -> list[str]:
    notes = [
        "The mean over the seeds of each task, summed over the tasks. Examples: those that the row saw in its training. An example "
        "counts once in each epoch, and stages before the recipe's epochs count too. "
        "FLOPs are computed in closed form from the number of tokens. "
        "Times were measured on the machine named below. Other programs, and other training runs of --jobs, may have run there at the "
        "same time. Teacher time, shared: "
        "students that train together share the teacher's forward passes. Alone: the time without this sharing. Start: what the "
        "row begins with. Pre-trainings on text are listed below by their keys."
    ]
    if has_cpu:
        notes.append(
            f"{CPU_TIME}: processor time of the process, over all its threads, with reading and scoring. Students that trained together "
            "share it in proportion to the times of their own passes."
        )
    # what was made once for some rows, and is in no column: computed before they trained, or pre-trained on text
    seconds: dict[str, dict[str, float]] = {}
    users: dict[str, set[str]] = {}
    starts: dict[str, tuple[str, dict[str, Any]]] = {}
    for record in study.records:
        for name, artefact in record.artefacts.items():
            if artefact.get("seconds", 0) >= LEAST_SECONDS:
                kind = name.split(".")[0].replace("_", " ")
                seconds.setdefault(kind, {})[artefact["key"]] = artefact["seconds"]
                users.setdefault(kind, set()).add(record.cell.label)
            if "train" in artefact:
                starts[artefact["key"]] = (name, artefact)
    notes += [
        f"{kind.capitalize()}, for {', '.join(sorted(users[kind]))}: {sum(of_kind.values()):,.0f} s, once for all seeds. No column of "
        f"this table counts it."
        for kind, of_kind in sorted(seconds.items())
    ]
    for key, (name, artefact) in sorted(starts.items()):
        trained, is_general = artefact["train"], name == "general_start"
        # older records, and methods, call it otherwise
        beginning = artefact.get("beginning", TRUNCATED if is_general else "")
        beginning = beginning.replace("the cut-down teacher", TRUNCATED)
        kind = "General start" if is_general else f"Pre-training on text, {name.replace('_', ' ')}"
        notes.append(
            f"{kind} {key[:12]}: {trained['tokens']:,} tokens, {trained['seconds_own']:,.0f} s (student passes only), made once for "
            f"all rows that use it. No column of this table counts it."
            + (f" It starts from {beginning}." if beginning else "")
        )
    return notes


IDLE_SHARE = 0.01
"""A term that never moves the weights by more than this part of its stage's gradients does not matter."""


def gradient_shares(study: Study) -> Table | None:
    """How much of the gradient each term gives, by stage; terms that never matter are named."""
    # (row, stage, term) -> its shares at the measured steps, of each training that has them; of stages with several terms
    measured: dict[tuple[str, str, str], list[list[float]]] = {}
    for label in study.systems:
        for record in trainings(study, label):
            for stage, terms in record.gradient_shares.items():
                for term, shares in terms.items():
                    if len(terms) > 1 and shares:
                        measured.setdefault((label, stage, term), []).append(shares)
    if not measured:
        return None
    steps = max(len(shares) for runs in measured.values() for shares in runs)
    lines, idle = [], []
    for (label, stage, term), runs in measured.items():
        points = [100 * (sum(values) / len(values)) for values in zip(*runs, strict=False)]
        # a training with fewer measured steps than the columns has them at other parts of its stage
        cells = [
            number(point, unit=" %")
            for point in (points if len(points) == steps else [None] * steps)
        ]
        lines.append(line_of(study, label, [TableCell(stage), TableCell(term), *cells]))
        if max(map(max, runs)) < IDLE_SHARE:
            idle.append(f"{label}: {term} in stage {stage} ({counted(len(runs), 'training run')})")
    notes = [
        "The norm of a weighted term's gradient, divided by the sum of these norms over the terms of the same stage and optimiser, at four "
        "steps; the mean over tasks and seeds. Only stages with several terms are shown. docs/methods.md explains the terms, in its section "
        "'The names of the loss terms'."
    ]
    if idle:
        notes.append(
            f"**Never above {100 * IDLE_SHARE:.0f} %, on any task, seed or step that was measured: {'; '.join(idle)}.** Such a term "
            "probably has little effect. An ablation without it shows whether that is so."
        )
    heads = [Column("System"), Column("stage", words=True), Column("term", words=True)]
    heads += [Column(f"after {100 * i // steps} %") for i in range(steps)]
    return Table("Gradient share of each term", heads, lines, notes)


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
"""A column that is left out where no model has a count of its own -> what is counted of the other models there."""
CLASSIFIER_SHARE = 0.01
"""Classification layers of two or three classes differ by a few hundred weights: by less than this part of a model."""


def sizes(named: Sequence[tuple[str, Sizes]]) -> Table:
    """Parameters by convention and the two counts of MACs, for any models by name."""
    titles = [
        title
        for title, (_, count) in COUNTS.items()
        if title not in ELSE or any(count(s) for _, s in named)
    ]
    lines = []
    for name, s in named:
        counts = {
            title: (count(s) or (ELSE[title](s) if title in ELSE else 0)) / u
            for title, (u, count) in COUNTS.items()
        }
        lines.append(Line(name, [number(counts[title], ".2f") for title in titles]))
    return Table("Sizes", [Column("System"), *map(Column, titles)], lines)


def sizes_of(study: Study) -> Table:
    """The sizes of a group's rows: one line a row; of models that differ in more than their classes, one line a task."""
    named: list[tuple[str, str, Sizes]] = []
    for label in study.systems:
        by_task = {
            task: own
            for task in study.tasks
            if (own := [r.sizes for r in study.records_of(label, task) if r.sizes])
        }
        models = [s for of_task in by_task.values() for s in of_task]
        if models and need_own_lines(models):
            named += [
                (label, f", {study.shown(task)}", of_task[0]) for task, of_task in by_task.items()
            ]
        elif models:
            named.append((label, "", min(models, key=lambda s: s.parameters)))
    table = sizes([(label + task, s) for label, task, s in named])
    names = ((study.called(label) + task, label) for label, task, _ in named)
    lines = [
        replace(line, name=name, row=row)
        for line, (name, row) in zip(table.lines, names, strict=True)
    ]
    return replace(table, lines=lines)


def models_differ(models: Sequence[Sizes]) -> bool:
    """Whether these models differ in more than the number of their classes: in their vocabulary, or in a head for pairs."""
    parameters = [s.parameters for s in models]
    bodies = {s.parameters - s.pooler_and_head for s in models}
    return len(bodies) > 1 or max(parameters) - min(parameters) > CLASSIFIER_SHARE * min(parameters)


def need_own_lines(models: Sequence[Sizes]) -> bool:
    """Whether these models need one line each in a table of sizes: other models, or sequences leave them at other layers."""
    return models_differ(models) or len({s.expected_macs for s in models}) > 1


BATCHES = {"batch_1": "batch 1", "batch_32": "batch 32"}


def writing(study: Study) -> Table | None:
    """A line for each row and task; means over seeds."""
    lines, places = [], [(batch, what) for batch in BATCHES for what in ("ms_a_text", "tokens")]
    for label in study.systems:
        for task in study.tasks:
            if told := [
                own
                for record in study.records_of(label, task)
                if (own := record.usage.get("writing"))
            ]:
                cells = [
                    number(mean(usage[batch][what] for usage in told)) for batch, what in places
                ]
                work = ("macs_of_read_token", "macs_of_written_token")
                cells += [number(mean(usage[what] for usage in told) / 1e6, ".2f") for what in work]
                line = line_of(study, label, cells)
                lines.append(
                    line
                    if len(study.tasks) == 1
                    else replace(line, name=f"{line.name}, {study.shown(task)}", row=label)
                )
    if not lines:
        return None
    told = [own for record in study.records if (own := record.usage.get("writing"))]
    notes = [
        "Times of the whole beam search, as the record's machine was when the row was scored: other programs may have run there, so they say "
        f"how large a time is, no more; {listed(sorted({str(usage['threads']) for usage in told}))} thread. Tokens: mean length of what was "
        "written, without its end. MACs (M): of reading one token, and of writing one with one beam, both without attention. BLEU: "
        f"{listed(sorted({usage['bleu'] for usage in told}))} (sacrebleu); ROUGE-L: F of rouge-score, no stemmer.",
    ]
    heads = [Column("System")]
    heads += [
        Column(f"{batch}, {what}") for batch in BATCHES.values() for what in ("ms a text", "tokens")
    ]
    heads += [Column("read token, MACs (M)"), Column("written token, MACs (M)")]
    return Table("Writing", heads, lines, notes)
