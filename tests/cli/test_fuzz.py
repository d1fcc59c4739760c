"""Every reader of what people give takes an input or refuses it in one line: never a traceback, a hang or a write.

The long forms, 10,000 inputs each, are ``tox -e faults``; ``FUZZ_SEED`` chooses other inputs.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import hostile_input
import pandas
import pytest
import tiny
from audit_containers import CONTAINERS, spanned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bench.data.checkpoints as checkpoints
from bench.analysis.gate_acceptances import budgets_of, read_acceptances
from bench.analysis.power import number_of_seeds
from bench.analysis.trace import trace
from bench.audit.checks import audit
from bench.audit.sheets import read_all
from bench.audit.summary import shown, unread_lines
from bench.data import word_vectors
from bench.data.corpus import read_corpus
from bench.data.own_tasks import expand
from bench.data.table_files import read
from bench.data.tasks import EvaluationSet, Task, from_toml
from bench.errors import InputError
from bench.plan.experiment_file import read_experiment
from bench.plan.spelling import parse_rows
from bench.report.write import names_in
from bench.request import Request
from bench.request.text import parse_jobs, parse_numbers, parse_seeds

ROOT = Path(__file__).resolve().parents[2]
RELAXED = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)
TASK = Task(
    "t", ("s",), ("no", "yes"), ("accuracy",), (EvaluationSet("validation", "t", "validation"),)
)
WORDS = st.lists(
    st.one_of(
        st.sampled_from(["kd", "microbert", "tinybert", "all", "ablate", "checkpoint", "pace", "layers", "alpha", "start", "-attn", "-dis"]),
        st.text(max_size=6),
        st.sampled_from(["=", ":", ",", "-", ".", "nan", "inf", "1e999", "9" * 30, "0", "-1", "true", "linear"]),
    ),
    max_size=8,
).map("".join)  # fmt: skip


def check_spelling(text: str) -> None:
    rows = parse_rows(text).rows
    for row in rows:
        assert parse_rows(row.spelling)[0][0].spelling == row.spelling


@pytest.fixture(scope="module")
def imported() -> None:
    """Every method: what an import takes is not a reader's time."""
    parse_rows("all")


@RELAXED
@given(WORDS)
@pytest.mark.slow
def test_any_spelling(imported, text):
    hostile_input.refuses(lambda: check_spelling(text), text)


def check_options(text: str) -> None:
    for parse in (
        lambda: Request(seeds=parse_seeds(text)).checked(),
        lambda: parse_jobs(text),
        lambda: parse_numbers([text]),
        lambda: budgets_of([text]),
        lambda: number_of_seeds(text),
        lambda: trace(text, ROOT / "nowhere"),
        lambda: expand(text),
    ):
        hostile_input.refuses(parse, text)


def test_a_number_with_too_many_digits_is_no_result(tmp_path):
    """Decimals of 28 digits cannot be rounded to it; found by the long form of the next test."""
    for text in ("0" + "9" * 300 + "." + "9" * 300, "0." + "9" * 40, "1e99999999999999999999"):
        assert hostile_input.refuses(lambda text=text: trace(text, tmp_path), text)


@RELAXED
@given(st.one_of(st.text(max_size=20), st.integers().map(str), st.floats().map(str)))
def test_any_option(text):
    check_options(text)


def parquet(columns: dict[str, object]) -> bytes:
    out = io.BytesIO()
    pandas.DataFrame(columns).to_parquet(out, index=False)
    return out.getvalue()


def read_text(file: Path) -> None:
    read_corpus([str(file)], 1).fingerprint()


GLOVE = b"the 0.1 0.2 -0.3\ncat 1 2 3\nnew york 0.5 0.5 0.5\n" * 3
FILES = {
    "paper.toml": (
        read_experiment,
        *(path.read_bytes() for path in sorted((ROOT / "methods" / "experiments").glob("*.toml"))),
        b'title = "t"\nrecipe = "paper"\n[[table]]\nname = "a"\nmethods = ["kd"]\ntasks = ["rte"]\nlabels = { "kd" = "KD" }\n'
        b'[[settings]]\nsource = "s"\nmethods = ["kd"]\nbatch_size = 8\naugment = "masked"\naugment_times = 3\nrow = { alpha = 0.5 }\n'
        b'stages.distil = { epochs = 2, learning_rate = 1e-4, schedule = "linear" }\n',
    ),
    "reviews.toml": (
        from_toml,
        b'name = "reviews"\ntrain = "train.csv"\nvalidation = "dev.csv"\ntext = ["sentence"]\nlabel = "label"\n'
        b'labels = ["negative", "positive"]\nmetrics = ["accuracy", "f1"]\n',
    ),
    "accepted.toml": (
        read_acceptances,
        b'[[accepted]]\nrow = "rte kd"\nwhat = "validation accuracy"\nreason = "seen"\n[[accepted]]\nrow = "a"\nwhat = "b"\nreason = "c"\n',
        *(b"accepted = 3", b'accepted = ["a"]', b"[accepted]\nrow = 1"),
        b"[[accepted]]\nrow = 1\nwhat = true\nreason = [2]\n",
    ),
    "names.toml": (
        names_in,
        b'kd = "KD"\n"kd:layers=3" = "KD, three layers"\n"tinybert" = "TinyBERT4"\n',
    ),
    "word_vectors.txt": (
        lambda file: word_vectors.read(file).nearest(["cat"], 2),
        GLOVE,
        b"3 3\n" + GLOVE,
    ),
    "corpus.txt": (read_text, "a document of some words\nan other ü\n\n".encode() * 3),
    "corpus.parquet": (
        read_text,
        *(parquet({"text": text}) for text in (["one", None, "two"] * 9, [1, 2], [["a"], ["b"]])),
        parquet({"x": ["a"]}),
    ),
}
"""Name of a file -> what reads it, and sound or nearly sound contents."""


@hostile_input.counts(150)
@pytest.mark.parametrize("name", FILES)
def test_files(name, count, tmp_path, imported):
    for beside in ("train.csv", "dev.csv"):
        (tmp_path / beside).write_text("sentence,label\nfine,positive\n")
    read, *sound = FILES[name]
    hostile_input.assault(tmp_path / name, lambda: read(tmp_path / name), sound, count)


ROWS = {"s": ["fine words", 'bad, "words"'], "label": [1, 0], "idx": [0, 1]}
DATA = {
    ".csv": [b's,label\nfine words,1\n"bad, ""words""",no\n', b"idx,s,label\n0,x,yes\n1,y,0\n"],
    ".tsv": [b"s\tlabel\nfine words\t1\nbad 'words'\t0\n"],
    ".jsonl": [
        b'{"s": "fine", "label": 1}\n{"s": "bad", "label": "no"}\n',
        b'{"s": "x", "label": 0, "idx": 3}\n',
        b"null\n",
        b"null",
    ],
    ".json": [
        b'[{"s": "fine", "label": 1}, {"s": "bad", "label": 0}]',
        b"null",
        b'{"s": "x",\n "label": 0}',
        b'{"s": ["a"], "label": [0]}',
    ],
    ".parquet": [parquet(ROWS), parquet({"s": [1, 2], "label": [0.5, None]})],
}


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
# pandas and tarfile leave a file open where they raise: Python closes it, and says so
@hostile_input.counts(12)
@pytest.mark.parametrize("ending", DATA)
def test_data_files(ending, count, tmp_path):
    file = tmp_path / f"train{ending}"

    def use() -> None:
        split = read([file], TASK, True)
        split.fingerprint(), split.example_hashes()
        split.halves(), split.limited(1)

    hostile_input.assault(file, use, DATA[ending], count)


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_null_as_a_data_file_ends_no_process(ending, tmp_path):
    """The parquet library's reader dies of it, and Python with it."""
    (tmp_path / f"train{ending}").write_text("null")
    with pytest.raises(InputError, match="a row should be an object"):
        read([tmp_path / f"train{ending}"], TASK, True)


def open_checkpoint(folder: Path) -> None:
    for cached in (checkpoints._sha256_of, checkpoints._tokenizer):
        cached.cache_clear()
    found = checkpoints.find(str(folder), None)
    assert found.width >= 1
    checkpoints.hash_of_tokenizer(found)


@pytest.fixture
def checkpoint(tmp_path, teacher_folder):
    return Path(shutil.copytree(teacher_folder, tmp_path / "hostile"))


@hostile_input.counts(60)
@pytest.mark.parametrize(
    "name", ["model.safetensors", "vocab.txt", "tokenizer_config.json", "tokenizer.json"]
)
def test_files_of_checkpoints(count, name, checkpoint):
    """Of the weights the header alone."""
    file = checkpoint / name
    if name == "tokenizer.json":
        tiny.tokenizer(checkpoint).save_pretrained(checkpoint)
    sound = file.read_bytes()
    header = 400 if name == "model.safetensors" else len(sound)
    for data in hostile_input.inputs([sound[:header]], count):
        file.write_bytes(data + sound[header:])
        hostile_input.refuses(lambda: open_checkpoint(checkpoint), data[:300], checkpoint.name)


SPOKEN = "\n\nOurs reaches 91.2 on MRPC, 2.3 points above BERT-base, keeps 97 % of it and is 9.4x faster.\n\n"


@pytest.mark.parametrize("name", CONTAINERS)
@hostile_input.counts(40)
def test_audited_files(name, count, tmp_path):
    """The whole of `audit`: tables, running text, findings, and what was not read."""
    file = tmp_path / name
    sound = [CONTAINERS[name](spanned(seed)) for seed in range(4)]
    if file.suffix in (".md", ".html", ".tex", ".rst", ".txt"):
        sound = [SPOKEN + text + SPOKEN for text in sound]

    def audited():
        pages = read_all([file])
        findings = audit(pages.sheets)
        said = shown(pages, findings) + unread_lines(pages)
        assert said.replace("\n", "").isprintable()

    hostile_input.assault(file, audited, [text.encode() for text in sound], count)
