"""Where examples come from: the sample suite, a user's files, a folder, the hub."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from bench.data import sample_suite
from bench.data.automatic_split import TENTH, divided
from bench.data.example_files import check_shards
from bench.data.hub import converted, downloaded
from bench.data.questions import read_squad
from bench.data.spans import read_questions
from bench.data.table_files import Split, read
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError, nearest
from bench.record.task_facts import half_dev_slug, held_back_slug

HUB_REPOSITORY = "nyu-mll/glue"
MADE_OF_SQUAD = "question-generation"


@dataclass(frozen=True)
class DataSource:
    """``name`` stands in report titles; ``slug`` in file names; ``epochs`` is the common recipe's
    length here."""

    name: str
    slug: str
    epochs: float = 3.0

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        """Whether the split ("train") or evaluation set is there."""
        raise NotImplementedError

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        """Raises InputError naming file, column or row when the data cannot be used."""
        raise NotImplementedError


def _place(task: Task, wanted: str | EvaluationSet) -> tuple[str, str, bool]:
    """Configuration, split, and whether it is labelled."""
    if isinstance(wanted, EvaluationSet):
        return wanted.config, wanted.split, wanted.labelled
    return task.name, wanted, True


def _with_counts(split: Split, task: Task, wanted: str | EvaluationSet) -> Split:
    """The split; an evaluation set of a task whose answers are texts gets the scores of copying its
    sources as labels."""
    if not task.writes or isinstance(wanted, str):
        return split
    from bench.stats.metrics.text import counts_of

    assert split.second is not None, "a text is written from another one"
    return replace(split, labels=counts_of(split.first, split.second))


@dataclass(frozen=True)
class Sample(DataSource):
    """The generated suite, never called GLUE; of tasks whose answers are texts, generated pairs."""

    name: str = f"sample suite {sample_suite.VERSION}"
    slug: str = f"sample-{sample_suite.VERSION}"
    epochs: float = sample_suite.EPOCHS

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return (
            not task.repository
            if task.writes
            else _place(task, wanted)[:2] in sample_suite.examples()
        )

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        if not self.has(task, wanted):
            raise InputError(
                f"--data sample: the sample suite has no {task.name}; "
                "use hub, or a folder with its files"
            )
        config, split, labelled = _place(task, wanted)
        if task.writes:
            first, second = zip(*sample_suite.pairs()[split], strict=True)
            return _with_counts(
                Split(list(first), list(second), None, range(len(first))), task, wanted
            )
        rows = sample_suite.examples()[config, split]
        return Split(
            [row.first for row in rows],
            [row.second or "" for row in rows] if len(task.columns) == 2 else None,
            np.array([row.label for row in rows], dtype=task.form.dtype) if labelled else None,
            range(len(rows)),
        )


@dataclass(frozen=True)
class Folder(DataSource):
    """Files below a folder in the hub's layout, or those that a user's task names itself."""

    root: Path = Path()
    hub: tuple[str, ...] = ()
    """configurations of the hub's repository, by which a machine that does not see the folder
    fetches it"""
    repository: str = HUB_REPOSITORY
    layout: str = "{config}/{split}-*-of-*.parquet"

    @property
    def revision(self) -> str:
        """The hub's commit; "" of a folder."""
        return self.root.name if self.hub else ""

    def files(self, config: str, split: str) -> list[Path]:
        if self.hub and not self.root.is_dir():
            return hub_folder(self.hub, False, self.revision, self.repository).files(config, split)
        return sorted(self.root.glob(self.layout.format(config=config, split=split)))

    def _files_of(self, task: Task, wanted: str | EvaluationSet) -> list[Path]:
        """The task's own; of questions also those of the hub's folder, or the official JSON
        file."""
        config, split, _ = _place(task, wanted)
        if task.files:
            return [Path(file) for name, file in task.files if name == split]
        if task.name == MADE_OF_SQUAD:
            config = task.repository.rpartition("/")[2]
            return [file for each in ("train", "validation") for file in self.files(config, each)]
        if not task.spans:
            return self.files(config, split)
        version = "2.0" if task.name == "squad_v2" else "1.1"
        part = "train" if split == "train" else "dev"
        official = self.root / f"{part}-v{version}.json"
        in_parquet = self.files(task.name, split) or self.files(task.evaluation[0].config, split)
        return in_parquet or [official][: official.is_file()]

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return bool(self._files_of(task, wanted))

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        config, split, labelled = _place(task, wanted)
        files = self._files_of(task, wanted)
        if not files:
            or_json = " and no official JSON" if task.spans else ""
            raise InputError(
                f"{self.name} has no {config}/{split}-00000-of-00001.parquet{or_json}; "
                f"leave {task.name} out of --tasks, or name a folder that has it with --data"
            )
        check_shards(files)
        if task.spans:
            return read_questions(files, task.name == "squad_v2")
        rows = (
            read_squad(files, split)
            if task.name == MADE_OF_SQUAD
            else read(files, task, labelled, split)
        )
        if task.files and files == [Path(file) for name, file in task.files if name != split]:
            # the same files for both
            division = divided(rows, task, str(files[0]))
            kept = division.train if split == "train" else division.scored
            rows = replace(rows.take(kept), said=(*rows.said, *division.said))
        return _with_counts(rows, task, wanted)


@dataclass(frozen=True)
class Part(DataSource):
    """Another source without what settings or an epoch are chosen on."""

    source: DataSource = Sample()
    tenth: bool = False
    """whether only training examples are read, of which a tenth is scored; else one half of each
    labelled evaluation set is scored"""
    draw: int = 0
    """which tenth: each number is another random one"""

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return self.source.has(task, "train" if self.tenth else wanted)

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        whole = self.source.load(task, "train" if self.tenth else wanted)
        is_scored = isinstance(wanted, EvaluationSet)
        if not self.tenth:
            if isinstance(wanted, EvaluationSet) and wanted.labelled:
                return whole.halves()[1]
            return whole
        if len(whole) < 20:
            raise InputError(
                f"{task.name} has {len(whole)} training examples; "
                "holding out a tenth needs at least 20"
            )
        if task.draws_by_class:
            division = divided(whole, task, task.name, parts=TENTH, draw=self.draw)
            return whole.take(division.scored if is_scored else division.train)
        order = np.random.default_rng(1 + self.draw).permutation(len(whole)).tolist()
        kept = len(whole) - len(whole) // 10
        return whole.take(sorted(order[kept:] if is_scored else order[:kept]))


def held_back(task: Task, source: DataSource, draw: int = 0) -> tuple[Task, DataSource]:
    """The task scored on a tenth of its training examples, and the source that keeps them out of
    the training.

    Args:
        draw: which tenth: each number is another random one.
    """
    name = f"{source.name}, a tenth of train held back"
    if draw:
        name += f" (draw {draw})"
    scored = EvaluationSet("held-back", task.name, "train")
    slug = held_back_slug(source.slug, draw)
    part = Part(name, slug, source.epochs, source, tenth=True, draw=draw)
    return replace(task, evaluation=(scored,)), part


def reported_half(source: DataSource) -> DataSource:
    """A source that scores one half of each labelled evaluation set; the other half may choose the
    epoch."""
    name = f"{source.name}, half of each development set"
    return Part(name, half_dev_slug(source.slug), source.epochs, source)


@lru_cache
def hub_folder(
    configs: tuple[str, ...],
    offline: bool,
    revision: str | None = None,
    repository: str = HUB_REPOSITORY,
) -> Folder:
    """The hub's parquet files of these configurations, downloaded once into the hub's own cache;
    see :func:`downloaded` for the revision.

    Raises:
        InputError: the hub cannot be reached and the cache lacks the files.
    """
    is_glue = repository == HUB_REPOSITORY
    title = "GLUE" if is_glue else "SQuAD"
    name = f"{title} ({repository})"
    root = downloaded(
        repository,
        [f"{config}/*.parquet" for config in configs],
        offline,
        f"{name} could not be read from the hub",
        "use --data sample, or --data FOLDER with files like rte/train-00000-of-00001.parquet"
        if is_glue
        else "use --data FOLDER with SQuAD's files",
        kind="dataset",
        revision=revision,
    )
    return Folder(
        name, "glue-hub" if is_glue else "hub-squad", root=root, hub=configs, repository=repository
    )


def _converted(task: Task, offline: bool) -> Folder:
    """``<split>/*.parquet`` below a configuration, as the hub itself converts every public data
    set.

    Raises:
        InputError: the task is generated, or the hub cannot be reached and the cache lacks the
            files.
    """
    if not task.repository:
        raise InputError(f"{task.name} is generated: use --data sample")
    name, _, config = task.repository.rpartition("/")
    root = converted(name, config, offline, "name a folder with its files with --data FOLDER")
    slug = f"hub-{task.repository.replace('/', '-')}"
    return Folder(f"{task.repository} from the hub", slug, root=root, layout="{split}/*.parquet")


def source_for(task: Task, data: str, offline: bool) -> DataSource:
    """The source that ``--data`` names, for this task.

    Args:
        data: "hub", "sample" or a folder; "auto" is resolved before (bench.plan.auto).

    Raises:
        InputError: no such folder.
    """
    if task.files:
        return Folder("own files", f"own-{task.name}")
    if data == "sample" and task.writes:
        suite = f"sample pairs {sample_suite.PAIRS_VERSION}"
        return Sample(suite, suite.replace(" ", "-"), sample_suite.PAIRS_EPOCHS)
    if data == "sample":
        return Sample()
    root = Path(data).expanduser()
    if data == "hub" and task.writes:
        source = _converted(task, offline)
    elif data == "hub" and task.spans:
        source = hub_folder((task.evaluation[0].config,), offline, None, task.repository)
    elif data == "hub":
        configs = {task.name} | {evaluation.config for evaluation in task.evaluation}
        source = hub_folder(tuple(sorted(configs)), offline)
    elif root.is_dir():
        what = "GLUE files"
        if task.writes:
            what = "files"
        elif task.spans:
            what = "questions"
        name = root.resolve().name
        source = Folder(f"{what} from the folder {name}", f"folder-{name}", root=root)
    else:
        near = nearest(data, ("hub", "sample", "auto"))
        hint = f"did you mean {near!r}? " if near else ""
        raise InputError(
            f"--data {data}: no such folder; {hint}choose hub, sample, auto or a folder with "
            "parquet files like GLUE's"
        )
    if task.name == MADE_OF_SQUAD:
        return replace(source, name=f"SQuAD's questions, {source.name}")
    return source
