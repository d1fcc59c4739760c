"""A trained student as a folder: weights, configuration, tokenizer, and a card of its origin."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.data.checkpoints import HUB_CONFIGURED, OURS, opener, tokenizer_of
from bench.data.encoding import ends_kept
from bench.data.sources import HUB_REPOSITORY
from bench.data.spans import ANSWER_TOKENS, QUESTION_TOKENS
from bench.data.tasks import GLUE, Task
from bench.files import folder_in_place_of, slug
from bench.make.teacher import as_question_answering
from bench.make.work import FailedCell, StepResult, Work
from bench.plan.plan import TaskPlan
from bench.record.cell import CHECKPOINT, POINTS_IN_8_BITS, TEACHER, Cell
from bench.record.known_teachers import EMBEDDED_SHA256
from bench.record.recipe import optimizers_of
from bench.record.schema import Record
from bench.record.task_facts import HUB, data_facts, shown_task, shown_tasks
from bench.request import Request
from bench.request.choices import SAMPLE
from bench.request.recorded import Recorded, task_as_typed
from bench.stats.metrics import metric_of
from bench.stats.paired import interval, resampled_scores

EMBEDDED_ON_HUB = "sentence-transformers/all-MiniLM-L6-v2"
CARD_RESAMPLES = 2000
SCORE_AGAIN = "To score it again next to other rows"


def folder_for(root: Path, record: Record) -> Path:
    """``<data>/<task>/<row>-seed-<n>-<beginning of the record's key>``."""
    cell = record.cell
    name = f"{slug(record.row)}-seed-{cell.seed}-{record.key[:8]}"
    return root / slug(cell.data.slug) / slug("+".join(cell.tasks)) / name


def export_student(
    root: Path,
    model: Any,
    tokenizer: Any,
    record: Record,
    task: Task,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Write a deployed model, as its record has it, as a folder.

    What lay there before is replaced by all of it.

    Args:
        arrays: the record's raw answers, for the intervals of its scores.

    Raises:
        OSError: it cannot be written; nothing is left behind. A model of somebody's own may raise
            other errors.
    """
    final = folder_for(root, record)
    # the configuration says what the model answers, and where it comes from
    if task.spans:
        model = as_question_answering(model)
    elif task.regression:
        model.config.problem_type = "regression"
    else:
        model.config.problem_type = "single_label_classification"
        model.config.id2label = dict(enumerate(task.labels))
        model.config.label2id = {name: code for code, name in enumerate(task.labels)}
    origin = {
        "method": record.cell.method,
        "row": record.row,
        "record": record.key,
        "seed": record.cell.seed,
        "max_length": record.cell.recipe["max_length"],
    }
    setattr(model.config, OURS, origin)
    with folder_in_place_of(final) as folder:
        model.save_pretrained(folder)
        save_tokenizer(folder, tokenizer, record, task)
        write_page(folder, model, record, task, arrays or {})
    return final


def save_tokenizer(folder: Path, tokenizer: Any, record: Record, task: Task) -> None:
    """A tokenizer that pads and cuts nothing unasked.

    ``truncation=True`` cuts where the model's task does.
    """
    # the file of a teacher may say how to pad and cut
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.model_max_length = record.cell.recipe["max_length"]
    side = "left" if task.truncation == "tail" else "right"
    # its keys are what is saved
    tokenizer.truncation_side = tokenizer.init_kwargs["truncation_side"] = side
    tokenizer.save_pretrained(folder)


def write_page(
    folder: Path, model: Any, record: Record, task: Task, arrays: Mapping[str, np.ndarray]
) -> None:
    """The card of a folder, and its entries of the hub's leaderboard."""
    (folder / "README.md").write_text(card(record, model, task, arrays), encoding="utf-8")
    if _is_hubs_glue(record):
        from huggingface_hub import eval_result_entries_to_yaml
        from huggingface_hub.utils import yaml_dump

        (folder / ".eval_results").mkdir(exist_ok=True)
        entries = eval_result_entries_to_yaml(_benchmark_entries(record))
        (folder / ".eval_results" / "glue.yaml").write_text(yaml_dump(entries), encoding="utf-8")


def save_where_asked(
    work: Work,
    result: StepResult,
    record: Record,
    model: Any,
    task: TaskPlan,
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write the model of a record as a folder, if the run saves them.

    A failure is noted and costs nothing that was trained.
    """
    if work.save_to is None:
        return
    try:
        tokenizer = tokenizer_of(task.checkpoint, to_save=True)
        folder = export_student(work.save_to, model, tokenizer, record, task.task, arrays)
        work.progress.say(f"saved: {folder}")
    except Exception as error:  # a full disk, a model that cannot be saved
        why = f"trained and recorded, but not saved in {work.save_to}: {error}"
        result.not_saved.append(FailedCell(task.shown, record.row, record.cell.seed, why))


def _came_tuned(record: Record) -> bool:
    """Whether the model was not trained here."""
    if record.cell.method == TEACHER:
        return record.cell.teacher.origin == "given"
    return record.cell.method == CHECKPOINT


def _is_hubs_glue(record: Record) -> bool:
    """Whether the data is the hub's copy of GLUE, which has a leaderboard there."""
    return data_facts(record.cell.data.slug).source == HUB and record.cell.tasks[0] in GLUE


METRICS_ON_THE_HUB = {
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}
"""Our names of metrics -> those of the hub, where they differ."""


def _benchmark_entries(record: Record) -> list[Any]:
    """What the hub's leaderboard of GLUE reads of a model's repository.

    It is the first metric of each evaluation set.
    """
    from huggingface_hub import EvalResultEntry

    # the revision of the data that was read
    revision = None
    for name, commit in record.env.get("hub", {}).items():
        if HUB_REPOSITORY in name:
            revision = commit
            break
    entries = []
    for name, scores in record.scores.items():
        metric, value = next(iter(scores.items()))
        entries.append(
            EvalResultEntry(
                dataset_id=HUB_REPOSITORY,
                task_id=f"{record.cell.tasks[0]}/{name}",
                value=round(100 * value, 2),
                dataset_revision=revision,
                date=record.finished,
                notes=f"{METRICS_ON_THE_HUB.get(metric, metric)}, development set",
            )
        )
    return entries


def _metadata(record: Record, pipeline: str) -> str:
    """The head of a model card, as the hub reads it."""
    from huggingface_hub import EvalResult, ModelCardData

    cell = record.cell
    task = "+".join(cell.tasks)
    dataset = HUB_REPOSITORY if _is_hubs_glue(record) else None
    results = []
    for name, scores in record.scores.items():
        for metric, value in scores.items():
            results.append(
                EvalResult(
                    task_type=pipeline,
                    dataset_type=dataset or cell.data.slug,
                    dataset_name=cell.data.name,
                    dataset_config=task,
                    dataset_split=name,
                    metric_type=METRICS_ON_THE_HUB.get(metric, metric),
                    metric_value=round(value, 4),
                )
            )
    # a base that nobody can open by its name is not named
    teacher = EMBEDDED_ON_HUB if cell.teacher.base == EMBEDDED_SHA256 else cell.teacher.name
    is_on_hub = "/" in teacher or teacher in HUB_CONFIGURED
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=pipeline,
        base_model=teacher if is_on_hub and not _came_tuned(record) else None,
        datasets=dataset,
        model_name=f"{record.row} on {task}",
        eval_results=results or None,
        tags=["bert-bench", cell.method],
    )
    return data.to_yaml()


def _with_interval(
    value: float, name: str, metric: str, record: Record, arrays: Mapping[str, np.ndarray]
) -> str:
    """A score in percent, with its 95 % interval over examples where the answers are there."""
    if f"logits.{name}" not in arrays:
        return f"{metric} {100 * value:.1f} %"
    # resampled examples, always the same ones
    predicted = metric_of(metric).form.predicted(arrays[f"logits.{name}"])
    labels = arrays[f"labels.{name}"]
    rng = np.random.default_rng(0)
    drawn = resampled_scores([predicted], labels, metric, rng, CARD_RESAMPLES)
    low, high = interval(drawn[:, 0])
    ends = f"95 % interval over examples: {100 * low:.1f} to {100 * high:.1f}"
    return f"{metric} {100 * value:.1f} % ({ends})"


def _what_it_reads(task: Task, longest: int) -> str:
    """How much of a text the model reads, as a sentence."""
    if task.spans:
        return (
            f"It reads at most {longest} tokens: at most {_of_question(longest)} of a question, "
            "and its text. Longer texts are scored in windows (bert-bench's docs/add-a-task.md); "
            "the lines below read the first one."
        )
    if task.truncation == "both":
        head, tail = ends_kept(longest, task.truncation)
        return (
            f"It reads at most {longest} tokens, of a longer text the first {head} and the last "
            f"{tail}: no tokenizer cuts that way, the lines below do."
        )
    amount = f"at most {longest} tokens"
    if task.truncation == "tail":
        amount = f"the last {longest} tokens"
    texts = "two texts" if len(task.columns) == 2 else "a text"
    return f"It reads {amount} of {texts}: give a pipeline of transformers `truncation=True`."


def _of_question(longest: int) -> int:
    """The most tokens of a question that are read."""
    return min(QUESTION_TOKENS, longest // 2 - 3)


def lines_for_both(longest: int) -> list[str]:
    """Code that makes ``ids`` of a text, as ``truncation = "both"`` has them.

    It uses ``tokenizer``, of the library tokenizers.
    """
    head, tail = ends_kept(longest, "both")
    return [
        'ids = tokenizer.encode("a text").ids',
        f"ids = ids if len(ids) <= {longest} else ids[:{head}] + ids[-{tail}:]",
    ]


def lines_for_questions(task: Task, longest: int) -> list[str]:
    """Code that prints an answer as records have it.

    It uses ``tokenizer``, of the library tokenizers, and ``logits_of(ids, kinds)``.
    """
    answer = "text[offsets[a][0] : offsets[b][1]]"
    printed = [f"print({answer})"]
    if task.name == "squad_v2":
        printed = [
            "is_answered = starts[a] + ends[b] >= none  # else [CLS] says that the text has no "
            "answer",
            f'print({answer} if is_answered else "")',
        ]
    return [
        'question, text = "a question", "the text that has the answer"',
        "asked = tokenizer.encode(question, add_special_tokens=False)"
        f".ids[:{_of_question(longest)}]",
        "read = tokenizer.encode(text, add_special_tokens=False)",
        f"words, offsets = read.ids[: {longest - 3} - len(asked)], read.offsets",
        'cls, sep = tokenizer.encode("").ids',
        "first = len(asked) + 2  # place of the text",
        "starts, ends = logits_of([cls, *asked, sep, *words, sep], "
        "[0] * first + [1] * (len(words) + 1))",
        "none, starts, ends = starts[0] + ends[0], starts[first:], ends[first:]",
        "spans = [(a, b) for a in range(len(words)) "
        f"for b in range(a, min(a + {ANSWER_TOKENS}, len(words)))]",
        "a, b = max(spans, key=lambda span: starts[span[0]] + ends[span[1]])",
        *printed,
    ]


def _code(model: Any, task: Task, longest: int) -> list[str]:
    """The lines that open the folder and answer."""
    from methods.core.models import inputs_of, reads_texts

    kind = type(model)
    auto_class = opener(task.spans).__name__
    opening = [f'model = {auto_class}.from_pretrained("THIS-FOLDER").eval()']
    tokenizer = 'tokenizer = AutoTokenizer.from_pretrained("THIS-FOLDER")'
    # a class of our own is known to transformers once it is imported
    ours = []
    if not kind.__module__.startswith("transformers."):
        ours = [f"import {kind.__module__}  # {kind.__name__}: with bert-bench installed"]
    has_pairs = len(task.columns) == 2

    # without a tokenizer
    if reads_texts(model):
        texts = '("a text", "a second one")' if has_pairs else '("a text", None)'
        imports = [f"from transformers import {auto_class}", *ours]
        return [*imports, *opening, f"logits = model.of_texts([{texts}])"]

    # of questions the best span; of both ends of a text what no tokenizer cuts
    imports = [f"from transformers import {auto_class}, AutoTokenizer", *ours]
    if task.spans:
        has_kinds = "token_type_ids" in inputs_of(model)
        kinds = ", token_type_ids=torch.tensor([kinds])" if has_kinds else ""
        return [
            "import torch",
            *imports,
            *opening,
            f"{tokenizer}.backend_tokenizer",
            "def logits_of(ids, kinds):",
            f"    scores = model(torch.tensor([ids]){kinds})",
            "    return scores.start_logits[0].tolist(), scores.end_logits[0].tolist()",
            *lines_for_questions(task, longest),
        ]
    if task.truncation == "both":
        return [
            "import torch",
            *imports,
            *opening,
            f"{tokenizer}.backend_tokenizer",
            *lines_for_both(longest),
            "logits = model(torch.tensor([ids])).logits",
        ]
    texts = '"a text", "a second one"' if has_pairs else '"a text"'
    logits = f'logits = model(**tokenizer({texts}, truncation=True, return_tensors="pt")).logits'
    return [*imports, *opening, tokenizer, logits]


def card(record: Record, model: Any, task: Task, arrays: Mapping[str, np.ndarray]) -> str:
    """The model's page: what it is, what it scored, its limits, its record, and how to open it."""
    cell = record.cell
    longest = int(cell.recipe["max_length"])
    # the head, which the hub reads
    pipeline = "question-answering" if task.spans else "text-classification"
    lines = ["---", _metadata(record, pipeline), "---", ""]
    lines += [f"# {record.row} on {shown_tasks(cell)}", ""]
    if cell.data.slug.startswith(f"{SAMPLE}-"):
        lines += ["**Trained on generated sample data, not GLUE.**", ""]
    # the table, the sentences below it, and how to use the model
    lines += ["| | |", "|---|---|"]
    lines += [f"| {name} | {text} |" for name, text in _facts(record, arrays)]
    lines += [""]
    lines += [f"- {note}" for note in [*record.notes, *_limits(record, model, task, longest)]]
    lines += [""]
    lines += [f"    {line}" for line in _code(model, task, longest)]
    lines += [""]
    again = f"{SCORE_AGAIN}: `{scoring_again(cell)}`"
    lines += [f"{again}, where folders and files are named by the last part of their path."]
    return "\n".join(lines) + "\n"


def _facts(record: Record, arrays: Mapping[str, np.ndarray]) -> list[tuple[str, str]]:
    """The lines of the card's table: what the model is, its training, its scores and its record."""
    cell = record.cell
    task = shown_tasks(cell)
    if cell.together:
        partners = [shown_task(partner.task, cell.data.slug) for partner in cell.together]
        task += f", one student of {', '.join(partners)}"
    # what was trained, by whom
    facts = [("row", f"`{record.row}`"), ("task", task)]
    if not _came_tuned(record):
        learned = f"{cell.data.name}, {cell.data.rows['train']:,} examples; seed {cell.seed}"
        learned += f"; recipe {cell.recipe['name']}"
        others = optimizers_of(cell.recipe)
        if others:
            learned += f", optimizer {', '.join(others)}"
        facts.append(("trained on", learned))
        facts.append(("teacher", f"{cell.teacher.name}, {cell.teacher.origin}"))
    # what was measured, and of which bytes
    scores = "; ".join(_scores_of(record, name, arrays) for name in record.scores)
    facts.append(("development set", scores or "no labels"))
    sizes = record.sizes
    counted = "not measured"
    if sizes is not None:
        counted = f"{sizes.parameters / 1e6:.2f} M parameters, {sizes.flops / 1e9:.2f} G FLOPs"
        counted += f" of a sequence of {sizes.sequence_length} tokens"
    facts.append(("size", counted))
    hashes = f"`{record.key}`; sha256 of the weights as tensors `{record.weights}`"
    facts.append(("record", hashes))
    commit = str(record.code.get("commit"))[:12]
    facts.append(("code", f"bert-bench {record.code.get('version')}, commit {commit}"))
    return facts


def _scores_of(record: Record, name: str, arrays: Mapping[str, np.ndarray]) -> str:
    """The scores on one evaluation set, in words."""
    scores = record.scores[name].items()
    texts = [_with_interval(value, name, metric, record, arrays) for metric, value in scores]
    return f"{name}: {', '.join(texts)}"


def _limits(record: Record, model: Any, task: Task, longest: int) -> list[str]:
    """What the scores are of, and what the model does not read, a sentence each."""
    from methods.core.models import reads_texts

    limits = []
    if record.point in POINTS_IN_8_BITS:
        limits.append(
            "Linear layers and embeddings are in 8 bits, and these are the scores of that."
        )
    if _came_tuned(record):
        limits.append("It was not trained by this program.")
    else:
        seed = record.cell.seed
        limits.append(f"One training, with seed {seed}: another seed gives another score.")
    if reads_texts(model):
        limits.append("It reads words, without a tokenizer.")
    else:
        limits.append(_what_it_reads(task, longest))
    limits.append("The licence is that of the base model and of the data; no other is given here.")
    return limits


def scoring_again(cell: Cell) -> str:
    """The command that scores what a cell has trained, kept as a folder; its place is left open."""
    asked = replace(Request.of(Recorded(cell)), methods=f"{CHECKPOINT}:THIS-FOLDER")
    # of a student of several tasks the one that was scored
    asked = replace(asked, tasks=task_as_typed(cell.tasks[0], [cell]))
    return shlex.join(asked.command("run", ["methods", "tasks", "data", "teacher"]))
