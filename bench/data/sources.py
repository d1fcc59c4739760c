"""Where examples come from: the hub, a folder in the hub's layout, the sample suite, a user's files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from bench.data import sample_pairs, sample_suite
from bench.data.hub import downloaded
from bench.data.questions import read_squad
from bench.data.spans import read_questions
from bench.data.table_files import Split, read
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError, nearest

HUB_REPOSITORY = "nyu-mll/glue"


@dataclass(frozen=True)
class DataSource:
    """``name`` stands in report titles; ``slug`` in file names; ``epochs`` is the common recipe's length here."""

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
    if isinstance(wanted, EvaluationSet):
        return wanted.config, wanted.split, wanted.labelled
    return task.name, wanted, True


@dataclass(frozen=True)
class Sample(DataSource):
    """The generated suite; never called GLUE."""

    name: str = f"sample suite {sample_suite.VERSION}"
    slug: str = f"sample-{sample_suite.VERSION}"
    epochs: float = sample_suite.EPOCHS

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return not task.files and _place(task, wanted)[:2] in sample_suite.SPLITS

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        if not self.has(task, wanted):
            raise InputError(f"--data sample: the sample suite has no {task.name}; use hub, or a folder with its files")
        config, split, labelled = _place(task, wanted)
        rows = sample_suite.generate(config, split)
        return Split(
            [row.first for row in rows],
            [row.second or "" for row in rows] if len(task.columns) == 2 else None,
            np.array([row.label for row in rows], dtype=task.form.dtype) if labelled else None,
            list(range(len(rows))),
        )


@dataclass(frozen=True)
class Folder(DataSource):
    """``<config>/<split>-00000-of-00001.parquet`` below a folder, as the hub's glue repository keeps them."""

    root: Path = Path()
    hub: tuple[str, ...] = ()
    """configurations of the hub's repository, by which a machine that does not see the folder fetches it"""
    repository: str = HUB_REPOSITORY

    @property
    def revision(self) -> str:
        """The hub's commit; "" of a folder."""
        return self.root.name if self.hub else ""

    def files(self, config: str, split: str) -> list[Path]:
        if self.hub and not self.root.is_dir():
            return hub_folder(self.hub, False, self.revision, self.repository).files(config, split)
        return sorted((self.root / config).glob(f"{split}-*-of-*.parquet"))

    def _files_of(self, task: Task, wanted: str | EvaluationSet) -> list[Path]:
        """Those of the task's folder; of questions also those of the hub's folder, or the official JSON file."""
        config, split, _ = _place(task, wanted)
        if not task.spans:
            return self.files(config, split)
        version = "2.0" if task.name == "squad_v2" else "1.1"
        official = self.root / f"{'train' if split == 'train' else 'dev'}-v{version}.json"
        in_parquet = self.files(task.name, split) or self.files(task.evaluation[0].config, split)
        return in_parquet or [official][: official.is_file()]

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return bool(self._files_of(task, wanted))

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        config, split, labelled = _place(task, wanted)
        files = self._files_of(task, wanted)
        if not files:
            raise InputError(
                f"{self.name} has no {config}/{split}-00000-of-00001.parquet{' and no official JSON' if task.spans else ''}; "
                f"leave {task.name} out of --tasks, or name a folder that has it with --data"
            )
        return read_questions(files, task.name == "squad_v2") if task.spans else read(files, task, labelled)


@dataclass(frozen=True)
class OwnFiles(DataSource):
    """The files that a user's task names itself."""

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return _place(task, wanted)[1] in dict(task.files)

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        _, split, labelled = _place(task, wanted)
        files: dict[str, list[Path]] = {}
        for name, file in task.files:
            files.setdefault(name, []).append(Path(file))
        rows = read(files[split], task, labelled)
        if files["train"] != files["validation"]:
            return rows
        # one file for both: a fifth of its rows, drawn once, is scored
        order, fifth = np.random.default_rng(1).permutation(len(rows)).tolist(), len(rows) // 5
        return rows.take(sorted(order[fifth:] if split == "train" else order[:fifth]))


@dataclass(frozen=True)
class HubPairs(Folder):
    """``<split>/*.parquet`` below a configuration, as the hub itself converts every public data set."""

    def files(self, config: str, split: str) -> list[Path]:
        return sorted((self.root / split).glob("*.parquet"))


@dataclass(frozen=True)
class Questions(DataSource):
    """Sentences and questions about them, made of SQuAD's files."""

    source: Folder = Folder("", "")

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return bool(self._files(task))

    def _files(self, task: Task) -> list[Path]:
        config = task.repository.rpartition("/")[2]
        return [file for split in ("train", "validation") for file in self.source.files(config, split)]

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        files = self._files(task)
        if not files:
            config = task.repository.rpartition("/")[2]
            raise InputError(
                f"{self.source.name}: there is no {config}/validation-00000-of-00001.parquet, a file of SQuAD"
            )
        return _pairs(read_squad(files, _place(task, wanted)[1]))


@dataclass(frozen=True)
class GeneratedPairs(DataSource):
    """Generated sentences and their translations."""

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return not task.repository

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        if task.repository:
            raise InputError(f"{task.name}: it is not generated; name its files with --data FOLDER, or --data hub")
        return _pairs(sample_pairs.generate(_place(task, wanted)[1]))


def _pairs(pairs: Sequence[tuple[str, str]]) -> Split:
    return Split([a for a, _ in pairs], [b for _, b in pairs], None, list(range(len(pairs))))


@dataclass(frozen=True)
class Written(DataSource):
    """Pairs of another source; with each evaluation set, what its sources would score if they were copied."""

    source: DataSource = GeneratedPairs("", "")

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return self.source.has(task, wanted)

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        from bench.stats.metrics.text import counts_of

        split = self.source.load(task, wanted)
        assert split.second is not None, "a text is written from another one"
        return split if isinstance(wanted, str) else replace(split, labels=counts_of(split.first, split.second))


def _source_of_pairs(task: Task, data: str, offline: bool) -> DataSource:
    """Where a task whose answers are texts has its pairs."""
    if task.files:
        return OwnFiles("own files", f"own-{task.name}")
    if data == "sample":
        suite = f"sample pairs {sample_pairs.VERSION}"
        return GeneratedPairs(suite, suite.replace(" ", "-"), sample_pairs.EPOCHS)
    if data == "hub":
        if not task.repository:
            raise InputError(f"{task.name} is generated: use --data sample")
        name, _, config = task.repository.rpartition("/")
        root = downloaded(
            name,
            [f"{config}/*/*.parquet"],
            offline,
            f"{task.name} ({name}) could not be read from the hub",
            "name a folder with its files with --data FOLDER",
            kind="dataset",
            revision="refs/convert/parquet",
        )
        slug = f"hub-{task.repository.replace('/', '-')}"
        source: Folder = HubPairs(f"{task.repository} from the hub", slug, root=root / config)
    else:
        source = _folder(data, "files")
    if task.name == "question-generation":
        return Questions(f"SQuAD's questions, {source.name}", source.slug, source.epochs, source)
    return source


@dataclass(frozen=True)
class HeldBack(DataSource):
    """A source of which a tenth of the training examples is kept for scoring: what settings may be chosen on."""

    source: DataSource = Sample()

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return self.source.has(task, "train")

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        whole = self.source.load(task, "train")
        if len(whole) < 20:
            raise InputError(f"{task.name} has {len(whole)} training examples; holding out a tenth needs at least 20")
        order = np.random.default_rng(1).permutation(len(whole)).tolist()
        kept = len(whole) - len(whole) // 10
        return whole.take(sorted(order[kept:] if isinstance(wanted, EvaluationSet) else order[:kept]))


def held_back(task: Task, source: DataSource) -> tuple[Task, DataSource]:
    """The task scored on a tenth of its training examples, and the source that keeps them out of the training."""
    name, slug = f"{source.name}, a tenth of train held back", f"{source.slug}-held-back"
    scored = EvaluationSet("held-back", task.name, "train")
    return replace(task, evaluation=(scored,)), HeldBack(name, slug, source.epochs, source)


@dataclass(frozen=True)
class ReportedHalf(DataSource):
    """A source that scores one half of each labelled evaluation set; the other half may choose the epoch."""

    source: DataSource = Sample()

    def has(self, task: Task, wanted: str | EvaluationSet) -> bool:
        return self.source.has(task, wanted)

    def load(self, task: Task, wanted: str | EvaluationSet) -> Split:
        whole = self.source.load(task, wanted)
        return whole.halves()[1] if isinstance(wanted, EvaluationSet) and wanted.labelled else whole


def reported_half(source: DataSource) -> ReportedHalf:
    name, slug = f"{source.name}, half of each development set", f"{source.slug}-half-dev"
    return ReportedHalf(name, slug, source.epochs, source)


@lru_cache
def hub_folder(
    configs: tuple[str, ...], offline: bool, revision: str | None = None, repository: str = HUB_REPOSITORY
) -> Folder:
    """The hub's parquet files of these configurations, downloaded once into the hub's own cache; see :func:`downloaded` for the revision.

    Raises:
        InputError: the hub cannot be reached and the cache lacks the files.
    """
    is_glue = repository == HUB_REPOSITORY
    name = f"{'GLUE' if is_glue else 'SQuAD'} ({repository})"
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
    return Folder(name, "glue-hub" if is_glue else "hub-squad", root=root, hub=configs, repository=repository)


def source_for(task: Task, data: str, offline: bool) -> DataSource:
    """The source that ``--data`` names, for this task.

    Args:
        data: "hub", "sample" or a folder; "auto" is resolved before (bench.plan.request).

    Raises:
        InputError: no such folder.
    """
    if task.writes:
        source = _source_of_pairs(task, data, offline)
        return Written(source.name, source.slug, source.epochs, source)
    if task.files:
        return OwnFiles("own files", f"own-{task.name}")
    if data == "sample":
        return Sample()
    if data == "hub":
        if task.spans:
            return hub_folder((task.evaluation[0].config,), offline, None, task.repository)
        return hub_folder(tuple(sorted({task.name, *(e.config for e in task.evaluation)})), offline)
    return _folder(data, "questions" if task.spans else "GLUE files")


def _folder(data: str, what: str) -> Folder:
    root = Path(data).expanduser()
    if not root.is_dir():
        near = nearest(data, ("hub", "sample", "auto"))
        hint = f"did you mean {near!r}? " if near else ""
        raise InputError(
            f"--data {data}: no such folder; {hint}choose hub, sample, auto or a folder with parquet files like GLUE's"
        )
    name = root.resolve().name
    return Folder(f"{what} from the folder {name}", f"folder-{name}", root=root)
