"""How much memory one worker process holds at its peak for one piece of a plan's work, in closed form.

What is counted: the process with its libraries, texts and their tokens, the weights of the teacher, and of each student its
weights and its optimiser's state. Gradients and activations are counted once, of the largest student: students of a group
take their steps one after another, and the loop frees the gradients after each step. Shapes come from models on the meta
device; nothing is allocated.

All functions state bytes of the whole process on a CPU. On an accelerator the tensors lie in its memory: it needs the
stated bytes without :func:`base_bytes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from bench.plan.recipe import ADAMW, optimizers_of
from bench.plan.spelling import MethodRow
from bench.train.optimizers import OPTIMIZERS

if TYPE_CHECKING:
    from torch import Tensor, nn

    from bench.data.checkpoints import Checkpoint
    from bench.data.sources import Split
    from bench.plan.build import Plan, Planned
    from bench.plan.starts import StartPlan
    from bench.plan.tasks import TaskPlan
    from methods.api import Setup, Shape, Stage, Student, Taps
    from methods.artefacts import Artefact, PretrainingStage

BASE_BYTES = 456_000_000
"""A process with torch, transformers, datasets and the others that has trained and scored a student of two layers and width
12: the peak of its proportional set size, measured alone on Linux with torch 2.13 (tests/memory_of_jobs.py --base)."""
FLOAT, DOUBLE, INT64 = 4, 8, 8
TOKENISING_BYTES = 240
"""Of each token: what a process has more after texts were encoded, measured with 2,031,986 tokens of 50,000 pairs of
sentences. Most of it is free again inside the process; the C library does not give it back to the system."""
TOKENS_A_WORD = 1.3
"""Of English text, by BERT's vocabulary."""
ARRAY_BYTES = 128
"""Of a small numpy array, beside its numbers."""
LOOKED_AT = 256
"""Examples whose lengths stand for all: as many as the plan encodes for its mean."""
DEVIATIONS = 3.0
"""By how many standard deviations the largest batch is above the mean one."""
READ = 3
"""Tensors that a term makes of each that it reads: the difference, its square, and the gradient."""
OF_A_LAYER = 2
"""How often the backward pass holds the tensors of the layer that it is at: values and their gradients."""


@dataclass(frozen=True)
class Extent:
    """A large batch: ``squares`` are the attention scores of one head, the sum of squared lengths with their padding."""

    sequences: int
    tokens: float
    squares: float


@runtime_checkable
class OwnTeacher(Protocol):
    """A general stage that brings a teacher of its own, as :class:`methods.artefacts.PretrainingStage` allows."""

    def teacher(self, setup: Setup) -> nn.Module:
        """In the place of the un-tuned teacher."""


@dataclass(frozen=True)
class Layers:
    """Floats of a forward pass through encoder layers.

    Attributes:
        depth: number of layers.
        width: of the states between them.
        attended: width of all heads' queries together.
        heads: of attention; 0 where there is none.
        kept: floats that one token leaves in one layer for the backward pass: input and output of each linear layer, the
            input of each normalisation. The attention scores are not in it.
    """

    depth: int
    width: int
    attended: int
    heads: int
    kept: float

    def trained(self, batch: Extent) -> int:
        """Bytes that a forward pass keeps for its backward pass, with what the backward pass adds in its largest layer."""
        embedding = 5 * self.width * batch.tokens  # the sum, its normalisation, dropout's mask and what is handed on
        one = self.kept * batch.tokens + 3 * self.heads * batch.squares  # softmax, dropout's mask, their product
        return round(FLOAT * (embedding + (self.depth + OF_A_LAYER) * one))

    def answered(self, batch: Extent) -> int:
        """Bytes of a forward pass without a backward pass: its largest layer."""
        return round(FLOAT * (self.kept * batch.tokens + 4 * self.heads * batch.squares))

    def read(self, taps: Taps, batch: Extent) -> int:
        """Bytes of what terms read of this pass."""
        floats = {
            "hidden": self.width * batch.tokens,
            "scores": self.heads * batch.squares,
            "vectors": 3 * self.attended * batch.tokens,
            "pooled": self.width * batch.sequences,
        }
        return round(FLOAT * sum(floats.get(tap.kind, 0) for tap in taps))

    def held_for_pooling(self, taps: Taps, batch: Extent) -> int:
        """Bytes of states that such a pass holds until they are pooled, with a weighted sum and its next summand."""
        from methods.taps import layers_of

        states = len(layers_of(taps, "pooled") - layers_of(taps, "hidden")) + 2 * any(tap.weights for tap in taps)
        return round(FLOAT * states * self.width * batch.tokens)


def base_bytes() -> int:
    """Of a worker process before its first piece of work and after a very small one: its libraries."""
    return BASE_BYTES


def group_bytes(plan: Plan, task: TaskPlan, group: Sequence[Planned]) -> int:
    """Of training and scoring students of one task and seed in lockstep, or one student of all tasks of the plan.

    The teacher and the starts from text are made: what else the students wish for is made here where the cache has it not.

    Args:
        group: cells of students, as :meth:`Plan.groups` and :meth:`Plan.together` have them.
    """
    tasks = plan.tasks if group[0].cell.together else [task]
    rows = list({planned.spelling: planned for planned in group}.values())  # of several tasks all cells are one student
    students = [_student_of(_row(planned), task, len(tasks) > 1) for planned in rows]
    taught = any(_row(planned).method.needs_teacher or _asks_teacher(_row(planned), task) for planned in rows)
    teacher = _teacher(task.checkpoint, task.task.num_labels) if taught else None
    common = BASE_BYTES + sum(map(_data_bytes, tasks)) + _starts_bytes(plan, task, rows)
    common += len(tasks) * _bytes(teacher) if teacher is not None else 0
    weights = sum(map(_bytes, students))
    moments = sum(_state_bytes(student, one.cell.recipe) for one, student in zip(rows, students, strict=True))
    looking = [student for planned, student in zip(rows, students, strict=True) if planned.cell.selection is not None]
    best = sum(map(_bytes, looking))  # the weights of the best epoch so far
    making = max(_making_bytes(plan, planned, one) for planned in rows for one in tasks)
    building = weights + max(_wished_bytes(_row(planned), task) for planned in rows)
    asked = _asked(rows, task)
    step = max(
        _step_bytes(planned, student, one, teacher, asked)
        for planned, student in zip(rows, students, strict=True)
        for one in tasks
    )
    scoring = max(_scoring_bytes(student.model, one) for student in students for one in tasks)
    answering = max((_bytes(student) for student in looking), default=0) + scoring if looking else 0
    training = weights + moments + best + max(step, answering)
    return common + max(making, building, training, weights + best + scoring)


def teacher_bytes(plan: Plan, task: TaskPlan) -> int:
    """Of fine-tuning the teacher of one task and scoring it; of one that comes tuned, of scoring it."""
    teacher = _teacher(task.checkpoint, task.task.num_labels)
    common = BASE_BYTES + _data_bytes(task) + _bytes(teacher)
    scoring = _scoring_bytes(teacher, task)
    return common + (scoring if task.teacher.origin == "given" else max(scoring, _tuning_bytes(teacher, task)))


def start_bytes(plan: Plan, start: StartPlan) -> int:
    """Of making one start from text, and what it is built from where the cache has it not."""
    from methods.artefacts import PretrainingStage, TruncatedTeacher

    parts = [plan.starts[key] for key in start.parts.values() if key in plan.starts]
    before = max((start_bytes(plan, part) for part in parts if not plan.is_there(part.slot)), default=0)
    wish = start.wish
    base = BASE_BYTES + _text_bytes(start) + sum(_bytes_of_wish(part.wish, part.checkpoint.config) for part in parts)
    made = _bytes_of_wish(wish, start.checkpoint.config)
    if isinstance(wish, PretrainingStage):
        return max(before, base + _own_stage_bytes(wish, start))
    teacher = _teacher(start.checkpoint, 2)
    cutting = _cutting_bytes(wish.shape, start) + _bytes(teacher) + made
    if isinstance(wish, TruncatedTeacher):
        return max(before, base + cutting)
    return max(before, base + cutting, base + _general_start_bytes(wish.shape, start))


# models on the meta device

_STUDENTS: dict[tuple[str, int, str, bool], Student] = {}
"""spelling, labels, teacher and whether it learns several tasks -> the student: many groups have the same rows"""


def _student_of(row: MethodRow, task: TaskPlan, several: bool) -> Student:
    """The student of one row as it is trained, without memory of its own; one head where it has several tasks."""
    import torch

    from methods.api import Setup
    from methods.parts import blank_artefacts

    config, labels = task.checkpoint.config, task.task.num_labels
    same = (row.spelling, labels, task.checkpoint.sha256, several)
    if same not in _STUDENTS:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            blank = blank_artefacts(row.method.requires(config), config, labels, "x" if several else "")
            _STUDENTS[same] = row.method.build(Setup(config, labels, ("x",), blank))
    return _STUDENTS[same]


def _row(planned: Planned) -> MethodRow:
    assert isinstance(planned.row, MethodRow), "groups have students alone"
    return planned.row


def _teacher(checkpoint: Checkpoint, labels: int) -> nn.Module:
    from bench.measure.students import teacher_model

    return teacher_model(checkpoint.config, labels, "meta")  # type: ignore[no-any-return]


def _modules(of: nn.Module | Student) -> list[nn.Module]:
    from methods.api import Student

    return [of.model, of.aux] if isinstance(of, Student) else [of]


def _bytes(of: nn.Module | Student) -> int:
    """Bytes of parameters and buffers; tied ones once."""
    tensors = {id(t): t for module in _modules(of) for t in chain(module.parameters(), module.buffers())}
    return _summed(tensors.values())


def _trained(of: nn.Module | Student) -> int:
    """Number of parameters that are trained; tied ones once."""
    return sum({id(p): p.numel() for module in _modules(of) for p in module.parameters() if p.requires_grad}.values())


def _state_bytes(of: nn.Module | Student, recipe: Mapping[str, Any]) -> int:
    """Bytes that the recipe's optimiser keeps of all trained parameters; where its stages have several, the largest."""
    shapes = {id(p): p.shape for module in _modules(of) for p in module.parameters() if p.requires_grad}.values()
    kinds = [OPTIMIZERS[name] for name in (recipe.get("optimizer", ADAMW), *optimizers_of(recipe))]
    return FLOAT * max(sum(map(kind.floats, shapes)) for kind in kinds)


def _summed(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def layers_of(model: nn.Module) -> Layers:
    """What a forward pass through this model keeps, read off its modules.

    A model of a family is an encoder. Of another one all linear and recurrent layers count as if every token took them.
    """
    from torch import nn
    from transformers import PreTrainedModel

    from methods.families import FAMILIES

    encoder = (
        model
        if isinstance(model, PreTrainedModel)
        else next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
    )
    family = FAMILIES.get(encoder.base_model_prefix) if encoder is not None else None
    if encoder is None or family is None:
        kept = _kept(model)
        return Layers(1, 0, 0, 0, kept)
    body = encoder.get_submodule(encoder.base_model_prefix)
    blocks = list(family.layers(body))
    attended, heads = family.attended(encoder.config), int(encoder.config.num_attention_heads)
    width = next((norm.normalized_shape[0] for norm in blocks[0].modules() if isinstance(norm, nn.LayerNorm)), attended)
    # layers that are replaced while they train (a successor's by a predecessor's) are as large as the largest
    return Layers(len(blocks), int(width), attended, heads, max(map(_kept, blocks)))


def _kept(module: nn.Module) -> float:
    """Floats that one token leaves in a module: linear layers' inputs and outputs, a recurrent layer's gates and states."""
    from torch import nn

    kept = 0
    for part in module.modules():
        if isinstance(part, nn.Linear):
            kept += part.in_features + part.out_features
        elif isinstance(part, nn.LayerNorm):
            kept += math.prod(part.normalized_shape)
        elif isinstance(part, nn.LSTM):
            directions = 1 + part.bidirectional
            kept += directions * part.num_layers * 7 * part.hidden_size  # four gates, two states, an output
    return kept


# batches and texts


def extent(lengths: Sequence[float], batch_size: int, most: int, fill: int = 0) -> Extent:
    """A large batch of sequences with such lengths.

    Args:
        lengths: tokens of some sequences.
        most: tokens that a sequence is cut to.
        fill: tokens that every sequence is filled up to with [PAD].
    """
    from methods.packed import TOLERATED_PADDING

    known = [min(most, max(fill, length)) for length in lengths]
    squares = [length**2 for length in known]
    longest = max(known)
    tokens = min(batch_size * longest, _of_many(known, batch_size))
    padded = _of_many(squares, batch_size) + (TOLERATED_PADDING if min(known) < longest else 0)
    return Extent(batch_size, tokens, min(batch_size * longest**2, padded))


def _of_many(values: Sequence[float], count: int) -> float:
    """A large sum of so many values that are drawn from these."""
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return count * mean + DEVIATIONS * math.sqrt(count) * deviation


def _lengths(task: TaskPlan) -> list[float]:
    """Tokens of some training examples: their words, in the plan's proportion of tokens to words."""
    some = task.train.limited(LOOKED_AT)
    words = [len(text.split()) for text in some.first]
    if some.second is not None:
        words = [count + len(text.split()) for count, text in zip(words, some.second, strict=True)]
    per_word = task.mean_tokens * len(words) / max(1, sum(words))
    return [max(1.0, count * per_word) for count in words]


def _batch(task: TaskPlan, fill: int = 0) -> Extent:
    rows = _rows(task)
    return extent(_lengths(task), min(task.recipe.batch_size, rows), task.recipe.max_length, fill)


def _rows(task: TaskPlan) -> int:
    """Training rows, with their variants at most."""
    return len(task.train) * (1 + task.augmentation.times if task.augmentation else 1)


def _scored_batch(task: TaskPlan) -> Extent:
    """The largest batch of predictions: sequences of similar length, TOKENS_A_BATCH tokens at most."""
    from bench.train.evaluate import TOKENS_A_BATCH

    longest = min(task.recipe.max_length, max(_lengths(task)))
    rows = max((len(split) for split in task.evaluation.values()), default=0)
    tokens = min(TOKENS_A_BATCH, rows * longest)
    return Extent(round(tokens / longest), tokens, tokens * longest)


def _data_bytes(task: TaskPlan) -> int:
    """The texts of one task and their tokens, all splits."""
    rows = _rows(task) + sum(map(len, task.evaluation.values()))
    texts = [task.train, *task.evaluation.values()]
    per_row = 2 * ARRAY_BYTES + TOKENISING_BYTES * task.mean_tokens + max(map(_bytes_a_row, texts))
    return round(rows * per_row)


def _bytes_a_row(split: Split) -> float:
    """Of an average row's strings."""
    some = split.limited(LOOKED_AT)
    texts = [*some.first, *(some.second or ())]
    return sum(50 + len(text) for text in texts) / max(1, len(some))  # 50 of a string, beside its letters


def _lengths_of_text(start: StartPlan) -> list[float]:
    """Tokens of some pieces of the corpus: documents are cut at the recipe's length."""
    documents, most = start.corpus.documents, start.recipe.max_length
    some = documents[:: max(1, len(documents) // LOOKED_AT)]
    found: list[float] = []
    for document in some:
        tokens = TOKENS_A_WORD * len(document.split()) + 3
        found += [float(most)] * int(tokens // most) + [max(4.0, tokens % most)]
    return found


def _text_bytes(start: StartPlan) -> int:
    """The corpus and its pieces, two arrays each."""
    lengths = _lengths_of_text(start)
    pieces = start.budget / (sum(lengths) / len(lengths))
    texts = sum(50 + len(document) for document in start.corpus.documents)
    return round(start.budget * 2 * INT64 + pieces * 2 * ARRAY_BYTES + texts)


# phases of the work


def _taps(stages: Sequence[Stage], dropped: Sequence[str]) -> list[tuple[Stage, Taps, Taps]]:
    """Each stage with what its terms read of the student and of the teacher."""
    from bench.train.legs import kept_terms

    found = []
    for stage in stages:
        student: Taps = frozenset()
        teacher: Taps = frozenset()
        for term in kept_terms(stage, dropped).values():
            student, teacher = student | term.student, teacher | term.teacher
        found.append((stage, student, teacher))
    return found


def _asked(rows: Sequence[Planned], task: TaskPlan) -> Taps:
    """All that the students of a group read of the teacher: one pass answers them together."""
    from bench.plan.tasks import setup_of

    total: Taps = frozenset()
    setup = setup_of([task], {})
    for planned in rows:
        for _, _, theirs in _taps(_row(planned).method.stages(setup), planned.cell.dropped):
            total = total | theirs
    return total


def _step_bytes(
    planned: Planned, student: Student, task: TaskPlan, teacher: nn.Module | None, asked_by_all: Taps
) -> int:
    """Gradients and activations of a student's largest step, with the teacher's answer to its whole group."""
    from bench.plan.tasks import setup_of

    stages = _taps(_row(planned).method.stages(setup_of([task], {})), planned.cell.dropped)
    asked = None if teacher is None else layers_of(teacher)
    return _gradient_bytes(student) + max(
        _stage_bytes(student, asked, ours, asked_by_all if theirs else theirs, _batch(task, stage.padding))
        for stage, ours, theirs in stages
    )


def _stage_bytes(student: Student, teacher: Layers | None, ours: Taps, theirs: Taps, batch: Extent) -> int:
    """Activations of one step: the teacher's answer stays while the student computes."""
    own = layers_of(student.model)
    read = own.read(ours, batch)
    answer = passing = 0
    if teacher is not None and theirs:
        answer = teacher.read(theirs, batch)
        passing = teacher.answered(batch) + teacher.held_for_pooling(theirs, batch)
        # a narrow student's states are compared in the teacher's width, also where the teacher's come pooled
        pooled = any(tap.kind == "pooled" for tap in theirs)
        read = max(read, answer, replace(own, width=teacher.width).read(ours, batch) if pooled else 0)
    step = own.trained(batch) + READ * read
    return answer + max(passing, step)


def _gradient_bytes(of: nn.Module | Student) -> int:
    """The gradients of one model, and the largest once more: it is squared for its norm."""
    sizes = [p.numel() for module in _modules(of) for p in module.parameters() if p.requires_grad]
    return FLOAT * (_trained(of) + max(sizes, default=0))


def _tuning_bytes(teacher: nn.Module, task: TaskPlan) -> int:
    """Of fine-tuning a teacher, besides its weights."""
    recipe = task.teacher_recipe
    batch = extent(_lengths(task), min(recipe.batch_size, len(task.train)), recipe.max_length)
    state = _state_bytes(teacher, recipe.as_dict())
    return state + _gradient_bytes(teacher) + layers_of(teacher).trained(batch)


def _scoring_bytes(model: nn.Module, task: TaskPlan) -> int:
    return layers_of(model).answered(_scored_batch(task))


def _asks_teacher(row: MethodRow, task: TaskPlan) -> bool:
    """Whether something of the tuned teacher's own is needed to build a student."""
    from methods.artefacts import ComputedArtefact, TeacherWeights

    wishes = row.method.requires(task.checkpoint.config)
    return any(isinstance(w, ComputedArtefact) or (isinstance(w, TeacherWeights) and w.tuned) for w in wishes)


def _making_bytes(plan: Plan, planned: Planned, task: TaskPlan) -> int:
    """What is computed from tuned teachers and training examples before a student is built, where the cache has it not."""
    from bench.plan.students import computed_slots
    from methods.artefacts import EnsembleTargets

    if all(plan.is_there(slot) for slot in computed_slots(_row(planned), planned.cell, task)):
        return 0
    teacher = _teacher(task.checkpoint, task.task.num_labels)
    tuning = _tuning_bytes(teacher, task)  # a teacher's gradients too, where they are asked for
    wishes = _row(planned).method.requires(task.checkpoint.config)
    others = max((wish.members for wish in wishes if isinstance(wish, EnsembleTargets)), default=1)
    return tuning + (others - 1) * _bytes(teacher)


def _wished_bytes(row: MethodRow, task: TaskPlan) -> int:
    """Tensors that one student is built from and that are dropped afterwards; the teacher's own as its file is read."""
    from methods.artefacts import GeneralDistillation, PretrainingStage, TruncatedTeacher

    config = task.checkpoint.config
    wishes = [
        w
        for w in row.method.requires(config)
        if not isinstance(w, GeneralDistillation | TruncatedTeacher | PretrainingStage)
    ]
    return sum(_bytes_of_wish(wish, config) for wish in wishes)


def _starts_bytes(plan: Plan, task: TaskPlan, rows: Iterable[Planned]) -> int:
    """Starts from text stay in memory as long as the process works, each once, with what they were built from."""
    keys = {key for planned in rows for key in planned.cell.artefacts.values() if key in plan.starts}
    keys |= {part for key in keys for part in plan.starts[key].parts.values() if part in plan.starts}
    return sum(_bytes_of_wish(plan.starts[key].wish, task.checkpoint.config) for key in keys)


def _bytes_of_wish(wish: Artefact, config: Any) -> int:
    import torch

    from methods.parts import blank_artefacts

    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        blank: Mapping[str, Mapping[str, Tensor]] = blank_artefacts([wish], config, 2)
    return sum(_summed(tensors.values()) for tensors in blank.values())


def _text_batch(start: StartPlan) -> Extent:
    return extent(_lengths_of_text(start), start.recipe.batch_size, start.recipe.max_length)


def _general_start_bytes(shape: Shape, start: StartPlan) -> int:
    """A student of this shape that imitates the teacher's hidden states, with its projection; and the teacher."""
    import torch
    from torch import nn

    from methods.api import Student
    from methods.parts import bert_config, classifier
    from methods.taps import hidden

    config = start.checkpoint.config
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        projection = nn.Linear(shape.hidden, config.hidden_size)
        student = Student(classifier(bert_config(shape, config)), nn.ModuleDict({"projection": projection}))
    states = hidden(*range(shape.layers + 1))
    return _learning_bytes(student, _teacher(start.checkpoint, 2), [(states, states)], start)


def _own_stage_bytes(wish: PretrainingStage, start: StartPlan) -> int:
    """A method's own general stage: its student, its teacher, and the head over the vocabulary where it hides tokens."""
    import torch

    from methods.api import Setup
    from methods.parts import blank_artefacts

    config = start.checkpoint.config
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        setup = Setup(config, 2, (), blank_artefacts(wish.requires(config), config, 2))
        student = wish.build(setup)
        teacher = wish.teacher(setup) if isinstance(wish, OwnTeacher) else _teacher(start.checkpoint, 2)
    stages = _taps(wish.stages(setup), ())
    share = max((stage.masking.share for stage, _, _ in stages if stage.masking is not None), default=0.0)
    words = 4 * FLOAT * share * _text_batch(start).tokens * config.vocab_size  # logits, their softmax, both gradients
    built_from = sum(_summed(tensors.values()) for tensors in setup.artefacts.values())
    return built_from + round(words) + _learning_bytes(student, teacher, [pair[1:] for pair in stages], start)


def _learning_bytes(student: Student, teacher: nn.Module, taps: Sequence[tuple[Taps, Taps]], start: StartPlan) -> int:
    """A student, its optimiser's state and gradients, its teacher, and its largest step on text."""
    batch, asked = _text_batch(start), layers_of(teacher)
    step = max(_stage_bytes(student, asked, ours, theirs, batch) for ours, theirs in taps)
    held = _bytes(student) + _state_bytes(student, start.recipe.as_dict()) + _gradient_bytes(student)
    return held + _bytes(teacher) + step


def _cutting_bytes(shape: Shape, start: StartPlan) -> int:
    """What bench.train.inherit holds while it cuts the teacher: its states on some text, in double precision."""
    from bench.train.starts import OBSERVED_TOKENS

    config, batch = start.checkpoint.config, _text_batch(start)
    tokens = min(OBSERVED_TOKENS, start.budget)
    depth, wide = config.num_hidden_layers, config.hidden_size
    times = tokens / batch.tokens
    whole = Extent(round(times * batch.sequences), tokens, times * batch.squares)
    middle, hidden = depth * tokens * wide, (depth + 1) * tokens * wide
    observed = DOUBLE * middle + layers_of(_teacher(start.checkpoint, 2)).answered(whole) + FLOAT * hidden
    states = DOUBLE * (middle + hidden)
    fits = (
        shape.heads == config.num_attention_heads
        and shape.hidden <= wide
        and shape.ffn <= config.intermediate_size
        and shape.layers <= depth
    )
    # the projection back is fitted on all states at once, and on the kept coordinates of them, copied twice
    fitting = DOUBLE * (hidden + 2 * (depth + 1) * tokens * shape.hidden) if fits else 0
    return round(max(observed, states + FLOAT * hidden + fitting))  # the process keeps the room of the single states
