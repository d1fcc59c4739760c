"""Artefacts made once and kept in the cache under their keys: whatever a plan asks for, by one way for all kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bench.artefacts.inputs import CorpusTraining, MakeContext, TrainingMakeContext, made
from bench.artefacts.task_data import TaskData, known
from bench.artefacts.teachers import base_model
from bench.cache import WEIGHTS, keep
from bench.data.checkpoints import Checkpoint, given_start, sha256_of, tokenizer_of
from bench.data.encoding import Encoded, pieces
from bench.plan.artefacts import ArtefactPlan, ArtefactPlans
from bench.plan.tasks import TaskPlan
from bench.progress import Progress
from bench.record.code import digest_of
from bench.record.recipe import Recipe
from bench.train.numerics import ComputeSettings
from bench.train.training_state import TrainingStates
from methods.artefacts import Artefact, Source
from methods.fast_kernels import FastLinear


@dataclass(frozen=True)
class MadeArtefact:
    """An artefact that is there."""

    tensors: Mapping[str, Tensor]
    body: Mapping[str, Any]
    """what its folder of the cache says of it"""
    known: Mapping[str, Any] = field(default_factory=dict)
    """the part of that which a record repeats"""


class ArtefactStore:
    """The artefacts of a plan, made when they are first asked for. What all tasks share stays in memory."""

    def __init__(self, plans: ArtefactPlans, numerics: ComputeSettings, progress: Progress) -> None:
        self.plans, self.numerics, self.progress = plans, numerics, progress
        self._held: dict[str, MadeArtefact] = {}

    def of(self, artefact: Artefact, data: TaskData) -> MadeArtefact:
        """One artefact that a method asks for on a task.

        Raises:
            CellError: a guard stopped a training.
        """
        entry = self.plans.find(artefact, data.plan.checkpoint, data.plan)
        assert entry is not None, f"{artefact} is planned before it is asked for"
        return self.get(entry, data)

    def get(self, entry: ArtefactPlan, data: TaskData | None = None) -> MadeArtefact:
        """One artefact, from memory, from the cache, or made now.

        Args:
            data: of the task; None only for what all tasks share.
        """
        if not entry.is_kept:
            return self._seen(entry, data)
        if entry.key in self._held:
            return self._held[entry.key]
        inputs = _Inputs(self, entry, data)
        if not entry.slot.is_made:
            inputs.open()
        with self.progress.task(entry.at_work) as update:
            found = self._kept(entry, inputs, update)
        if entry.task is None:
            self._held[entry.key] = found
        return found

    def masked_head(self, task: TaskPlan) -> tuple[Mapping[str, Tensor], Mapping[str, Any], Mapping[str, Any]]:
        """The un-tuned teacher's masked-language head, how it was made, and the text it was made from."""
        entry = self.plans.kept[task.masked_head]
        head = self.get(entry)
        return head.tensors, head.body, _text_of(entry)

    def _seen(self, entry: ArtefactPlan, data: TaskData | None) -> MadeArtefact:
        """A view of its one input."""
        inputs = _Inputs(self, entry, data)
        tensors, _ = made(self._making(entry, inputs), entry.checkpoint.folder / WEIGHTS)
        # the key, the weights and the code of a view are those of its one input (ArtefactPlan.is_kept)
        body = {"key": entry.key, "weights": entry.key, **dict(*inputs.parts.values())}
        return MadeArtefact(tensors, body, known(body, "beginning"))

    def _kept(self, entry: ArtefactPlan, inputs: _Inputs, update: Callable[[int, int], Any]) -> MadeArtefact:
        def write(folder: Path) -> dict[str, Any]:
            kernels: AbstractContextManager[object] = FastLinear() if entry.kernels else nullcontext()
            with kernels:
                tensors, said = made(self._making(entry, inputs, update), entry.checkpoint.folder / WEIGHTS)
            save_file(dict(tensors), folder / WEIGHTS)
            return {**said, "weights": sha256_of(folder / WEIGHTS)}

        body = keep(entry.slot, write, inputs.parts, say=self.progress.say)
        inputs.clear()
        said = known(body, "beginning", *(["seconds"] if entry.task is not None else []))
        if entry.text is not None:
            said["text"] = _text_of(entry)
        if "train" in body:
            said["train"] = {name: body["train"][name] for name in ("steps", "tokens", "seconds_own")}
        return MadeArtefact(load_file(entry.slot.folder / WEIGHTS), body, said)

    def _making(
        self, entry: ArtefactPlan, inputs: _Inputs, update: Callable[[int, int], Any] = lambda done, total: None
    ) -> MakeContext:
        on_text = None if entry.text is None else CorpusTraining(entry.text.budget, entry.text.recipe)
        batch_size = Recipe.batch_size
        if entry.task is not None:
            batch_size = entry.task.recipe.batch_size
        kind = TrainingMakeContext if entry.stages else MakeContext
        return kind(entry.artefact, entry.setup, inputs, self.numerics, batch_size, on_text, update)


def _text_of(entry: ArtefactPlan) -> dict[str, Any]:
    """For a record: the files, and how many tokens of them, that an artefact is made from."""
    assert entry.text is not None
    return {"files": list(entry.text.corpus.files), "tokens": entry.text.budget}


class _Inputs:
    """The inputs of one artefact (:class:`bench.artefacts.inputs.Inputs`), opened when they are asked for."""

    def __init__(self, store: ArtefactStore, entry: ArtefactPlan, data: TaskData | None) -> None:
        self.store, self.entry, self.data = store, entry, data
        self.parts: dict[str, Mapping[str, Any]] = {}
        """what is known of how each was made, where somebody made it"""
        self._teachers: dict[Source, tuple[nn.Module, Mapping[str, Any]]] = {}
        self._training_states: TrainingStates | None = None

    def open(self) -> None:
        """What has to be made first: it says by itself how far it is."""
        for part in self.entry.parts:
            self.tensors(part)
        for source in self.entry.sources:
            if source.kind == "fine_tuned":
                self.teacher(source)

    def tensors(self, artefact: Artefact) -> Mapping[str, Tensor]:
        if self.data is not None:
            part = self.store.of(artefact, self.data)
        else:
            (entry,) = (one for one in self.store.plans.parts_of(self.entry) if one.artefact == artefact)
            part = self.store.get(entry)
        self.parts[artefact.name] = part.body
        return part.tensors

    def teacher(self, source: Source) -> nn.Module:
        if source.kind == "base":
            # a head that came with the checkpoint stays as it is, also where no task says how many labels there are
            checkpoint = self._checkpoint
            labels = checkpoint.config.num_labels if checkpoint.finetuned else self.entry.setup({}).num_labels
            return base_model(checkpoint, labels)  # type: ignore[no-any-return]
        if source not in self._teachers:
            self._teachers[source] = self._task.tuned(source.seed)
        model, self.parts[self._label(source)] = self._teachers[source]
        return model

    def _label(self, source: Source) -> str:
        return next(one.label for one in self.entry.inputs if one.what == source)

    def examples(self, source: Source) -> Encoded:
        if source.kind == "train":
            return self._task.train
        if source.kind == "evaluation":
            return next(encoded for encoded in self._task.evaluation.values() if encoded.labels is not None)
        return self._corpus

    @cached_property
    def _corpus(self) -> Encoded:
        text = self.entry.text
        assert text is not None, "the corpus is among the inputs"
        return pieces(tokenizer_of(self._checkpoint), text.corpus.documents, text.recipe.max_length, text.budget)

    def folder(self, source: Source) -> Path:
        assert source.shape is not None, "a checkpoint has a shape"
        found = given_start(source.path, source.shape, self._checkpoint, self.store.plans.request.offline)
        self.parts[source.label] = {"beginning": f"given: {found.name}"}
        return found.folder

    def training_states(self) -> TrainingStates:
        weights = {name: body.get("weights") for name, body in self.parts.items()}
        slot, progress = self.entry.slot, self.store.progress
        self._training_states = TrainingStates(
            [["start", slot.key, weights]],
            progress.say,
            code=(digest_of(slot.code),),
            is_stopping=progress.is_stopping,
        )
        return self._training_states

    def clear(self) -> None:
        """The artefact is kept: a state of its training is not needed any more."""
        if self._training_states is not None:
            self._training_states.clear()

    @property
    def _checkpoint(self) -> Checkpoint:
        return self.entry.checkpoint

    @property
    def _task(self) -> TaskData:
        assert self.data is not None, "only what is a task's own reads the task"
        return self.data
