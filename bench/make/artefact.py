"""Make an artefact: from memory, from the cache, or now."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bench.cache import WEIGHTS, keep
from bench.data.checkpoints import given_start, sha256_of, tokenizer_of
from bench.data.encoding import Encoded, pieces
from bench.errors import InputError
from bench.make.given import Given, tensors_of
from bench.make.output_scale import answers_to, into_training_units
from bench.make.task_data import TaskData
from bench.make.teacher import base_model
from bench.make.work import MadeArtefact, Work, known
from bench.plan.plan import ArtefactPlan
from bench.record.code import digest_of
from bench.record.recipe import Recipe
from bench.train.training_state import TrainingStates
from methods.core.artefacts import Artefact, Source
from methods.core.fast_kernels import FastLinear


def artefact(entry: ArtefactPlan, data: TaskData | None, work: Work) -> MadeArtefact:
    """One artefact of a plan.

    Args:
        data: of the task; None only for what all tasks share.

    Raises:
        CellError: a guard stopped a training.
    """
    if entry.artefact.is_kept and entry.key in work.artefacts:
        return work.artefacts[entry.key]
    given = _GivenByCache(entry, data, work)
    weights = entry.checkpoint.folder / WEIGHTS
    # the key, the weights and the code of a view are those of its one input
    if not entry.artefact.is_kept:
        tensors, _ = tensors_of(given, weights)
        view: dict[str, Any] = {"key": entry.key, "weights": entry.key}
        view |= dict(*given.made_from.values())
        return MadeArtefact(tensors, view, known(view, "beginning"))

    # from the cache, or made now
    if not entry.slot.is_made:
        given.open()

    def write(folder: Path) -> dict[str, Any]:
        kernels: AbstractContextManager[object] = FastLinear() if entry.kernels else nullcontext()
        with kernels:
            tensors, body = tensors_of(given, weights)
        save_file(dict(tensors), folder / WEIGHTS)
        return {**body, "weights": sha256_of(folder / WEIGHTS)}

    title = entry.title
    if entry.task is not None:
        title = f"{entry.task.shown}: {entry.artefact.words}"
    elif entry.text:
        title = f"{entry.title} from {entry.text.corpus.name}"
    with work.progress.task(title) as given.on_step:
        body = keep(entry.slot, write, given.made_from, say=work.progress.say)
    if given.states is not None:  # it is kept: a state of its training is not needed any more
        given.states.clear()

    # what a record says of it
    further = ["beginning"]
    if entry.task is not None:
        further.append("seconds")
    for_record = known(body, *further)
    if entry.text is not None:
        text = entry.text.for_record()
        if "passes" in body:  # caches of older versions do not know it
            text["passes"] = body["passes"]
        for_record["text"] = text
    if "train" in body:
        train = body["train"]
        for_record["train"] = {name: train[name] for name in ("steps", "tokens", "seconds_own")}
    there = MadeArtefact(load_file(entry.slot.folder / WEIGHTS), body, for_record)
    if entry.task is None:
        work.artefacts[entry.key] = there
    return there


class _GivenByCache(Given):
    """The inputs of one artefact of a plan, opened when they are asked for."""

    def __init__(self, entry: ArtefactPlan, data: TaskData | None, work: Work) -> None:
        super().__init__(
            entry.artefact,
            entry.setup,
            work.numerics,
            batch_size=Recipe.batch_size if entry.task is None else entry.task.recipe.batch_size,
            text_recipe=entry.text.recipe if entry.text else None,
            text_budget=entry.text.budget if entry.text else 0,
            row_recipe=entry.task.teacher_recipe if entry.task is not None else None,
        )
        self.seed = entry.seed
        self._entry = entry
        self._data = data
        self._work = work
        self._teachers: dict[Source, tuple[nn.Module, Mapping[str, Any]]] = {}
        self.made_from: dict[str, Mapping[str, Any]] = {}
        """what is known of how each input came to be, where somebody made it"""
        self.states: TrainingStates | None = None

    def open(self) -> None:
        """Have everything read and made that it is made from: each says by itself how far it is."""
        if self._entry.text is not None:
            self._text  # noqa: B018
        for part in self._entry.parts.values():
            self.tensors(part.artefact)
        for source in self._entry.sources:
            if source.kind == "fine_tuned":
                self.teacher_of(source)

    def tensors(self, wanted: Artefact) -> Mapping[str, Tensor]:
        part = artefact(self._entry.parts[wanted.name], self._data, self._work)
        self.made_from[wanted.name] = part.body
        return part.tensors

    def teacher_of(self, source: Source) -> nn.Module:
        if source.kind == "base":
            # a head that came with the checkpoint stays as it is, also where no task says how many
            # labels there are
            checkpoint = self._entry.checkpoint
            labels = checkpoint.config.num_labels
            if not checkpoint.finetuned:
                labels = self._entry.setup({}).num_labels
            model = base_model(checkpoint.folder, labels, labels=checkpoint.labels)
            scale = self._data.plan.scale if self._data is not None else None
            if checkpoint.finetuned and scale is not None:
                assert self._data is not None, "it has the scale"
                into_training_units(model, scale, answers_to(self._data.given, self._work.numerics))
            return model  # type: ignore[no-any-return]
        if source not in self._teachers:
            assert self._data is not None, "only what is a task's own reads its teacher"
            seed = self._data.plan.tuning_seed(source.seed)
            self._teachers[source] = self._data.tuned(seed)
        label = next(planned.label for planned in self._entry.sources if planned == source)
        model, self.made_from[label] = self._teachers[source]
        return model

    def examples(self, source: Source) -> Encoded:
        if source.kind == "corpus":
            return self._text
        assert self._data is not None, "only what is a task's own reads its rows"
        if source.kind == "train":
            return self._data.train
        return next(
            encoded for encoded in self._data.evaluation.values() if encoded.labels is not None
        )

    @property
    def mask_id(self) -> int:  # type: ignore[override]
        mask = tokenizer_of(self._entry.checkpoint).mask_token_id
        if mask is None:
            raise InputError(f"{self._entry.checkpoint.asked}: its tokenizer has no [MASK]")
        return int(mask)

    @property
    def _text(self) -> Encoded:
        text = self._entry.text
        assert text is not None, "the corpus is among the inputs"
        checkpoint = self._entry.checkpoint
        longest = text.recipe.max_length
        key = (text.corpus.fingerprint(), longest, text.budget, checkpoint.sha256)
        if key not in self._work.texts:
            title = f"{text.budget:,} tokens of {text.corpus.name}"
            with self._work.progress.task(title, is_short=True):
                tokenizer = tokenizer_of(checkpoint)
                read = pieces(tokenizer, text.corpus.documents, longest, text.budget)
            self._work.texts[key] = read
        return self._work.texts[key]  # type: ignore[no-any-return]

    def folder_of(self, source: Source) -> Path:
        start = given_start(source, self._entry.checkpoint, self._work.offline)
        # what the hub gives here, or the folder, is another one
        if start.sha256 != self._entry.sources[source]:
            raise InputError(
                f"start_from={source.path}: its weights are not those that were planned"
            )
        assert source.shape is not None, "a checkpoint has a shape"
        layers = source.shape.layers
        depth = start.config.num_hidden_layers
        lowest = "" if layers == depth else f", its lowest {layers} of {depth} layers"
        self.made_from[source.label] = {"beginning": f"given: {start.name}{lowest}"}
        return start.folder

    def training_states(self) -> TrainingStates:
        slot = self._entry.slot
        weights = {name: body.get("weights") for name, body in self.made_from.items()}
        self.states = TrainingStates(
            [["start", slot.key, weights]],
            self._work.progress.say,
            code=(digest_of(slot.code),),
            is_stopping=self._work.progress.is_stopping,
        )
        return self.states
