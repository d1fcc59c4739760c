"""The store: attempts kept, one current; one bad file blocks no command: it is named once, with the reason."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import factories
import hostile_input
import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.lib import format as numpy_format

from bench.record import raw_predictions
from bench.record.set_aside import ADOPTED, SET_ASIDE, WITHOUT_ANSWERS
from bench.record.speed_sessions import FOLDER, speed_records
from bench.record.store import Store
from bench.record.task_facts import TaskFacts
from bench.train.prediction import score

FROZEN = Path(__file__).parents[1] / "records" / "v1"


REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
RTE = REFERENCE / "folder-glue" / "rte"
VICTIM = "kd/8203fa3e740fbed5"
"""seed 0"""
RECORD, ANSWERS = "attempt-1.json", "attempt-1.npz"
TORN = b'{"schema_version": 1, "scor'
DAMAGE: dict[str, tuple[str, bytes | Callable[[dict], object], str]] = {
    "torn": (RECORD, TORN, "Invalid JSON"),
    "binary": (RECORD, b"\xff\xfe\x00\x01" * 40, "Invalid JSON"),
    "nan": (RECORD, lambda b: b["scores"]["validation"].update(accuracy=np.nan), "finite"),
    "newer": (RECORD, lambda b: b.update(schema_version=99), "update the package"),
    "newer field": (RECORD, lambda b: b.update(colour="red"), "update the package"),
    "other seed": (RECORD, lambda b: b["cell"].update(seed=77), "another cell"),
    "other slug": (RECORD, lambda b: b["cell"]["data"].update(slug="../elsewhere"), "another cell"),
    "no rows": (RECORD, lambda b: b["cell"]["data"].update(rows={}), "training rows"),
    "no scores": (RECORD, lambda b: b.update(scores={}), "neither scores"),
    "edited score": (
        RECORD,
        lambda b: b["scores"]["validation"].update(accuracy=0.99),
        "does not follow",
    ),
    "impossible score": (
        RECORD,
        lambda b: b["scores"]["validation"].update(accuracy=2),
        "less than or equal to 1",
    ),
    "garbage": (ANSWERS, b"garbage" * 99, "no arrays"),
    "objects": (
        ANSWERS,
        lambda a: a.update({"logits.validation": np.array([{}], dtype=object)}),
        "no arrays",
    ),
    "fewer labels": (
        ANSWERS,
        lambda a: a.update({"labels.validation": a["labels.validation"][:5]}),
        "examples",
    ),
    "not numbers": (
        ANSWERS,
        lambda a: a["logits.validation"].__setitem__((0, 0), np.nan),
        "not all numbers",
    ),
    "no logits": (ANSWERS, lambda a: a.__delitem__("logits.validation"), "have no logits"),
    "turned": (
        ANSWERS,
        lambda a: a.update({"labels.validation": 1 - a["labels.validation"]}),
        "does not follow",
    ),
    "one column": (
        ANSWERS,
        lambda a: a.update({"logits.validation": a["logits.validation"][:, :1]}),
        "logits of shape [277, 1]; classification has [277, 2]",
    ),
    "a third class": (
        ANSWERS,
        lambda a: a.update({"logits.validation": np.eye(3, dtype="f4")[a["labels.validation"]]}),
        "classification has [277, 2]",
    ),
    "classes": (
        ANSWERS,
        lambda a: a["labels.validation"].__setitem__(0, 7),
        "not among its 2 classes",
    ),
}
"""What can happen -> the file, its bytes or a change of what it holds, and what is said of it."""
POINTER = {
    b"\xff\xfe\x00": "is not text",
    b"": "does not name an attempt",
    b"../../../../../etc/passwd": "does not name an attempt",
    b"attempt-7.json\n": "not there",
}


def spoil(folder: Path, what: str) -> None:
    name, how, _ = DAMAGE[what]
    file = folder / name
    if isinstance(how, bytes):
        file.write_bytes(how)
        return
    held = json.loads(file.read_text()) if name == RECORD else dict(np.load(file))
    how(held)
    file.write_text(json.dumps(held)) if name == RECORD else np.savez_compressed(file, **held)


@pytest.fixture
def store(tmp_path):
    """Real records: three seeds of kd, three of tinybert, their teacher."""
    root = tmp_path / "r"
    for row in ("kd", "tinybert", "teacher"):
        shutil.copytree(RTE / row, root / "folder-glue" / "rte" / row)
    return Store(root)


def victim(store: Store) -> Path:
    return store.root / "folder-glue" / "rte" / VICTIM


@pytest.mark.parametrize("what", DAMAGE)
def test_a_bad_record_is_set_aside_and_the_others_are_read(store, what):
    spoil(victim(store), what)
    assert len(list(store.records())) == 6
    (note,) = store.notes
    assert (note.kind, note.path) == (SET_ASIDE, victim(store) / RECORD)
    assert DAMAGE[what][2] in note.sentence()
    assert "\n" not in note.sentence()


@pytest.mark.parametrize("pointer", POINTER)
def test_where_a_pointer_is_bad_the_finished_attempt_is_adopted_and_said_so(store, pointer):
    (victim(store) / "current").write_bytes(pointer)
    assert len(list(store.records())) == 7
    aside, adopted = store.notes
    assert aside.path.name == "current"
    assert POINTER[pointer] in aside.sentence()
    assert (adopted.kind, adopted.path) == (ADOPTED, victim(store) / RECORD)


def test_an_earlier_attempt_is_used_where_the_current_one_cannot(store):
    record = store.find_by_key(VICTIM[3:])
    file = store.write(record, store.predictions(record))
    file.write_text("{")
    again = Store(store.root)
    assert again.find(record.cell) == record
    assert [note.kind for note in again.notes] == [SET_ASIDE, ADOPTED]
    new = again.write(record, store.predictions(record))
    assert new.name == "attempt-3.json", "a broken attempt keeps its number"


def test_new_records_have_the_sum_of_their_answers_and_it_is_checked(store):
    record = store.find_by_key(VICTIM[3:])
    assert record.answers is None, "older records have none"
    arrays = store.predictions(record)
    file = store.write(record, arrays)
    (kept,) = [r for r in store.records() if r.key == record.key]
    assert kept.answers
    assert (kept.key, kept.train_key) == (record.key, record.train_key)
    logits = arrays["logits.validation"] * np.float32(1.0001)  # the same scores
    np.savez_compressed(file.with_suffix(".npz"), **{**arrays, "logits.validation": logits})
    again = Store(store.root)
    assert again.find(record.cell) == record, "the first attempt"
    assert "sha256" in again.notes[0].why


@given(
    arrays(
        st.sampled_from(["<f4", "<f8", ">f8", "<i8", "<u8", "|b1", "<U3"]),
        array_shapes(min_dims=0, max_dims=3, min_side=0),
    ),
    st.booleans(),
)
def test_answers_are_read_as_they_were_packed(array, is_turned):
    array = np.asfortranarray(array) if is_turned else array
    data, sha256 = raw_predictions.pack({"logits.a": array, "labels.a": array[..., None]})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.npz"
        file.write_bytes(data)
        read = raw_predictions.read(file, ["a"], sha256)
    assert sorted(read) == ["labels.a", "logits.a"]
    for name, before in (("logits.a", array), ("labels.a", array[..., None])):
        after = read[name]
        assert before.dtype == after.dtype
        assert before.shape == after.shape
        assert before.tobytes() == after.tobytes()


def test_objects_and_torn_arrays_are_no_answers(tmp_path):
    objects = {"logits.a": np.array([{}], dtype=object)}
    np.savez(tmp_path / "objects.npz", **objects)
    whole = raw_predictions.pack({"logits.a": np.arange(9)})[0]
    (tmp_path / "torn.npz").write_bytes(whole[:-40])
    (tmp_path / "text.npz").write_bytes(b"a,b\n")
    for name in ("objects", "torn", "text"):
        with pytest.raises(raw_predictions.Unreadable, match="no arrays"):
            raw_predictions.read(tmp_path / f"{name}.npz", ["a"])


def test_answers_are_kept_while_there_is_room():
    kept = raw_predictions.Kept(100)
    labels = np.arange(5)
    for number in range(4):
        logits = np.arange(3.0) + number
        kept.keep(Path(str(number)), None, {"logits.a": logits, "labels.a": labels.copy()})
    # 40 bytes of labels once, and 24 of logits each
    found = [kept.of(Path(str(number)), None) for number in range(4)]
    assert [arrays is not None for arrays in found] == [True, True, False, False]
    assert found[0]["labels.a"] is found[1]["labels.a"]
    assert kept.of(Path("0"), "another sum") is None
    kept.drop(Path("0"))
    assert kept.of(Path("0"), None) is None


def test_a_record_whose_answers_are_gone_keeps_its_scores(store):
    record = store.find_by_key(VICTIM[3:])
    store.write(record, store.predictions(record)).with_suffix(".npz").unlink()
    again = Store(store.root)
    kept = again.find_by_key(VICTIM[3:])
    assert kept.scores == record.scores
    assert not again.has_predictions(kept)
    assert [note.kind for note in again.notes] == [WITHOUT_ANSWERS]


def test_what_cannot_be_read_again_is_not_written(tmp_path):
    store, record = Store(tmp_path), factories.record()
    for wrong in (
        {"terms": {"joint": {"hard": [1.0, float("nan")]}}},
        {"usage": {"left": {"3": float("inf")}}},
        {"scores": {"validation": {"accuracy": float("nan")}}},
    ):
        with pytest.raises(ValueError, match="is NaN or infinite"):
            store.write(record.model_copy(update=wrong))
    assert not list(tmp_path.rglob("attempt-*"))


def test_a_bad_session_of_timing_is_set_aside(tmp_path):
    heard = []
    shutil.copytree(REFERENCE / FOLDER, tmp_path / FOLDER)
    (session,) = (tmp_path / FOLDER).glob("*/*.json")
    body = json.loads(session.read_text())
    short = {**body, "timings": [{**body["timings"][0], "seconds": []}, *body["timings"][1:]]}
    null = {**body, "timings": [{**body["timings"][0], "seconds": [None]}, *body["timings"][1:]]}
    for name, data in {
        "a" * 16: b"{", "b" * 16: b"\xff", "c" * 16: b"[" * 100_000, "d" * 16: b"{}", "e" * 16: json.dumps(body).encode(),
        body["key"][:15] + "x": json.dumps(short).encode(), "f" * 16: json.dumps(null).encode(),
        "9" * 16: json.dumps({**short, "key": "9" * 64}).encode(),
    }.items():  # fmt: skip
        (session.parent / f"{name}.json").write_bytes(data)
    assert len(list(speed_records(tmp_path, heard.append))) == 1
    assert len(heard) == 8
    assert sum("is said to be timed and has no times" in note.why for note in heard) == 1


DAMAGED = {"kd": "torn", "tinybert": "edited score"}


@pytest.fixture
def damaged(store):
    """Of each row one seed is spoilt, and another has lost its pointer."""
    for row, what in DAMAGED.items():
        first, second, _ = sorted((store.root / "folder-glue" / "rte" / row).iterdir())
        spoil(first, what)
        (second / "current").unlink()
    return store.root


@pytest.mark.parametrize(
    "words",
    [
        "report",
        "compare kd tinybert",
        "choose",
        "check --baseline {reference} --methods kd,tinybert --tasks rte",
    ],
)
@pytest.mark.slow
def test_every_verb_goes_on_and_names_each_file_once(bench, damaged, tmp_path, words):
    reference = tmp_path / "reference"
    shutil.copytree(
        RTE,
        reference / "folder-glue" / "rte",
        ignore=shutil.ignore_patterns("m*", "p*", "f*", "d*"),
    )
    words = words.format(reference=reference, results=damaged).split()
    options = ["--reports", tmp_path / "p"] if words[0] == "report" else []
    answer = bench(*words, *options, "--results", damaged)
    assert "Traceback" not in answer.stderr
    lines = [line for line in answer.stderr.splitlines() if "set aside: " in line]
    assert len(lines) == 2, answer.stderr
    assert answer.stderr.count("adopted: ") == 2
    if words[0] == "report":
        (report,) = (tmp_path / "p").glob("*/*/README.md")
        head = report.read_text().partition("\n## ")[0]
        assert head.count("**Set aside: folder-glue/rte/") == 2
        assert head.count("**Adopted: folder-glue/rte/") == 2
        assert str(tmp_path) not in head


@pytest.mark.slow
def test_a_run_trains_again_what_it_must_and_says_why(tmp_path, teacher_folder, glue_folder, bench):
    words = ["run", "--methods", f"kd:{tiny.SHAPE}:start=random", "--tasks", "rte,sst2", "--data", glue_folder,
             "--teacher", teacher_folder, "--results", tmp_path / "r", "--reports", tmp_path / "p"]  # fmt: skip
    assert bench(*words).returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("attempt-1.json")}
    broken, lost, *_ = [path for path in sorted(before) if "/kd/" in str(path)]
    broken.write_text("{")
    pointer = (lost.parent / "current").read_text()
    (lost.parent / "current").unlink()
    answer = bench(*words)
    assert answer.returncode == 0, answer.stderr
    assert "is trained again, because its record was set aside: it: Invalid JSON" in answer.stderr
    assert answer.stderr.count("bench: set aside: ") == 1
    assert answer.stderr.count("bench: adopted: ") == 1
    assert (lost.parent / "current").read_text() == pointer
    assert sorted(p.name for p in broken.parent.glob("attempt-*.json")) == [
        "attempt-1.json",
        "attempt-2.json",
    ]
    assert [p.name for p in lost.parent.glob("attempt-*.json")] == ["attempt-1.json"], (
        "adopted, not trained again"
    )
    again = bench(*words)
    assert "nothing to do" in again.stderr
    assert "set aside" not in again.stderr


def test_what_killed_processes_left_is_named_and_removed_when_asked(bench, store, monkeypatch):
    cache = Path(os.environ["BERT_BENCH_CACHE"])
    left = victim(store) / ".tmp-abc"
    left.write_bytes(b"x" * 1000)
    thing = cache / "teachers" / ".tmp-xyz"
    (thing / "new").mkdir(parents=True)
    (thing / "new" / "model.safetensors").write_bytes(b"y" * 5000)
    young = victim(store) / ".tmp-young"
    young.write_bytes(b"in use")
    orphan = victim(store) / "attempt-2.npz"
    orphan.write_bytes(b"z")
    record = store.find_by_key(VICTIM[3:])
    failed = record.model_copy(update={"status": "interrupted"})
    (victim(store) / "attempt-3.json").write_text(failed.model_dump_json())
    for path in (left, thing, orphan):
        os.utime(path, (1, 1))
    asked = ["store", "gc", "--results", store.root]
    named = bench(*asked)
    assert named.returncode == 1, named.stderr
    assert "4 can go" in named.stdout
    assert left.exists()
    done = bench(*asked, "--yes")
    assert done.returncode == 0
    assert not any(
        path.exists() for path in (left, thing, orphan, victim(store) / "attempt-3.json")
    )
    assert young.exists()
    assert bench(*asked).stdout == "nothing to remove\n"
    assert len(list(Store(store.root).records())) == 7


def test_what_is_broken_is_put_aside_and_pointers_are_written(bench, store):
    folders = sorted((store.root / "folder-glue" / "rte" / "tinybert").iterdir())
    spoil(folders[0], "torn")
    spoil(folders[1], "garbage")
    (folders[2] / "current").unlink()
    (victim(store) / "current").write_text("attempt-9.json")
    cache = Path(os.environ["BERT_BENCH_CACHE"])
    (cache / "teachers" / "0").mkdir(parents=True)
    (cache / "teachers" / "0" / "made.json").write_text("{")
    words = ["store", "verify", "--results", store.root]
    before = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
    found = bench(*words)
    assert found.returncode == 1
    assert found.stdout.splitlines()[-1] == "4 broken, 2 no pointer"
    assert {
        path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()
    } == before, "verify writes nothing"
    mended = bench("store", "repair", "--results", store.root)
    assert mended.returncode == 0, mended.stdout
    assert mended.stdout.count("put aside: ") == 6
    assert mended.stdout.count("written: ") == 2
    assert bench(*words).returncode == 0
    assert len(list(Store(store.root).records())) == 5
    kept = {path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
    assert set(before.values()) - {b"attempt-9.json"} <= kept | {b"attempt-1.json\n"}, (
        "nothing is lost"
    )
    gone = bench("store", "gc", "--results", store.root, "--yes")
    assert gone.returncode == 0, gone.stdout
    assert not list(store.root.rglob("*.broken"))


def test_nearly_equal_answers_keep_the_score_that_was_computed_of_them():
    """float32 and float64 correlate them differently; the record would be set aside, and its cell trained for ever."""
    draw = np.random.default_rng(0)
    logits = (0.0016 + 6e-9 * draw.normal(size=(40, 1))).astype(np.float32)
    labels = draw.normal(size=40).astype(np.float32)
    metrics = ("spearman", "pearson")
    task = TaskFacts(form="score", labels=(), metrics=metrics)
    record = factories.record().model_copy(
        update={"task": task, "scores": {"validation": score(logits, labels, metrics)}}
    )
    arrays = {
        "logits.validation": logits,
        "labels.validation": labels,
        "examples.validation": np.arange(40),
    }
    assert not raw_predictions.fault(record, arrays)
    labels[0] += 1
    assert raw_predictions.fault(record, arrays)


# --- what would be waited for, or fill the memory


def npz(folder: Path) -> Path:
    return folder / ANSWERS


def header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    """What an array of numpy begins with."""
    out = io.BytesIO()
    array = {"descr": kind, "fortran_order": False, "shape": shape}
    numpy_format.write_array_header_1_0(out, array)
    return out.getvalue()


def with_zeros(file: Path, name: str, shape: tuple[int, ...], written: int) -> None:
    """Add an array of zeros to an ``.npz`` file, or put it in the place of the one of that name.

    Args:
        written: how many of its bytes are really there.
    """
    held = {n: a for n, a in np.load(file).items() if n != name}
    np.savez_compressed(file, **held)
    with (
        zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as packed,
        packed.open(f"{name}.npy", "w") as out,
    ):
        out.write(header(shape))
        for _ in range(written // 10**6):
            out.write(bytes(10**6))


def most_memory(work: Callable[[], object]) -> int:
    """The largest number of bytes that Python and numpy held during some work."""
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.slow
def test_an_array_that_nobody_reads_costs_no_memory(store):
    """A few hundred kilobytes of zeros unpack to 400 MB."""
    with_zeros(npz(victim(store)), "unused", (10**8,), 4 * 10**8)
    assert most_memory(lambda: list(store.records())) < 50e6
    assert store.notes == []
    record = store.find_by_key(VICTIM[3:])
    assert set(store.predictions(record)) == {
        f"{what}.validation" for what in ("logits", "labels", "examples")
    }


@pytest.mark.parametrize("shape", [(10**9, 2), (2**31, 2**31), (-1, 2), (10**18,)])
def test_an_array_that_says_it_is_large_is_not_read(store, shape):
    with_zeros(npz(victim(store)), "logits.validation", shape, 10**6)
    assert most_memory(lambda: list(store.records())) < 50e6
    (note,) = store.notes
    assert note.path == victim(store) / RECORD
    assert "its logits.validation has" in note.why


def test_an_array_that_no_reader_would_take_is_not_written(store, monkeypatch):
    record = store.find_by_key(VICTIM[3:])
    arrays = store.predictions(record)
    monkeypatch.setattr(raw_predictions, "LARGEST_ARRAY", 1000)
    with pytest.raises(ValueError, match="an array of answers has at most"):
        store.write(record, arrays)
    assert not list(victim(store).glob("attempt-2*"))


def pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def device(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")


def folder_there(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()


def sparse(file: Path) -> None:
    """A file of 100 GB that takes no room on the disk."""
    with file.open("wb") as empty:
        empty.truncate(10**11)


@pytest.mark.parametrize("replace", [pipe, device, folder_there, sparse])
@pytest.mark.parametrize("name", ["current", RECORD, ANSWERS])
def test_what_is_no_file_of_a_store_is_not_waited_for(store, name, replace):
    """Each is named in one line, and the six other records are read."""
    replace(victim(store) / name)
    with hostile_input.limited():
        found = list(store.records())
    aside = [note for note in store.notes if note.kind == SET_ASIDE]
    assert len(found) == (7 if name == "current" else 6)
    assert [note.path.name for note in aside] == [RECORD if name == ANSWERS else name]
    assert "cannot be read" in aside[0].sentence()


@pytest.mark.parametrize("replace", [pipe, device, folder_there, sparse])
def test_what_is_no_session_of_timing_is_not_waited_for(tmp_path, replace):
    heard = []
    shutil.copytree(REFERENCE / FOLDER, tmp_path / FOLDER)
    (session,) = (tmp_path / FOLDER).glob("*/*.json")
    replace(session.with_name(f"{'a' * 16}.json"))
    with hostile_input.limited():
        assert len(list(speed_records(tmp_path, heard.append))) == 1
    assert len(heard) == 1
