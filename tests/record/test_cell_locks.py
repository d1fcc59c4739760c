"""Claims: a cell has one holder at a time, whoever dies and however."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import InputError
from bench.record import cell_locks as module
from bench.record.cell_locks import CellLocks
from bench.record.store import Store

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
IMPORTS = "import os, sys, time; from pathlib import Path; from bench.record.cell_locks import CellLocks\n"

TAKE_AND_STAY = "claims = CellLocks(Path(sys.argv[1])); print(claims.take(sys.argv[2]), flush=True); time.sleep(600)"

WIN_EVERY_KEY = """
root, log, keys, wins = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
file = os.open(log, os.O_WRONLY | os.O_APPEND)
print(flush=True)
sys.stdin.readline()
left = {f"cell-{n}": wins for n in range(keys)}
with CellLocks(root) as claims:
    while left:
        for key in list(left):
            if claims.take(key):
                os.write(file, f"{key} {os.getpid()} begins\\n".encode())
                time.sleep(0.0005)
                os.write(file, f"{key} {os.getpid()} ends\\n".encode())
                claims.release(key)
                left[key] -= 1
                if not left[key]:
                    del left[key]
"""


@pytest.fixture
def start() -> Iterator:
    """``start(code, *arguments)``: a Python process that imports Claims first; killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", IMPORTS + code, *map(str, arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def files(root: Path) -> set[str]:
    """What lies in the folder of the claims, but for the two files that stay."""
    return {file.name for file in (root / ".claims").iterdir()} - {".gitignore", "guard"}


def test_one_holder_at_a_time_and_no_file_is_left(tmp_path, start):
    """Four processes want each of 50 cells twice, in the same order."""
    log = tmp_path / "log"
    log.touch()
    processes = [start(WIN_EVERY_KEY, tmp_path, log, 50, 2) for _ in range(4)]
    assert [said(process) for process in processes] == [""] * 4
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(SECONDS) for process in processes] == [0] * 4
    works: dict[str, str] = {}
    won: Counter[tuple[str, str]] = Counter()
    for line in log.read_text().splitlines():
        key, process, what = line.split()
        if what == "begins":
            assert key not in works, f"{key}: {process} begins while {works[key]} works on it"
            works[key] = process
            won[key, process] += 1
        else:
            assert works.pop(key) == process
    assert not works
    assert len(won) == 4 * 50
    assert set(won.values()) == {2}
    assert files(tmp_path) == set()


def test_nobody_locks_a_file_while_it_is_removed(tmp_path, monkeypatch):
    """The moment of the race is made long: without the guard the second locks a file that the first then removes."""
    first, second, third = (CellLocks(tmp_path) for _ in range(3))
    answers: list[bool] = []
    rival = threading.Thread(target=lambda: answers.append(second.take("a")))
    unlink = Path.unlink

    def late(file: Path, missing_ok: bool = False) -> None:
        if file.name == "a.lock":
            rival.start()
            rival.join(0.3)
        unlink(file, missing_ok)

    assert first.take("a")
    with monkeypatch.context() as during:
        during.setattr(module, "GUARD_SECONDS", SECONDS)
        during.setattr(Path, "unlink", late)
        first.release("a")
        rival.join()
    assert answers == [True]
    assert not third.take("a")


def test_another_object_is_kept_out_until_release(tmp_path):
    with CellLocks(tmp_path) as first, CellLocks(tmp_path) as second:
        assert first.take("a")
        assert first.take("a")
        assert not second.take("a")
        second.release("a")
        assert not second.take("a")
        first.release("a")
        assert second.take("a")
        assert not first.take("a")
        assert first.take("b")
    assert files(tmp_path) == set()


def test_a_killed_process_holds_nothing(tmp_path, start):
    process = start(TAKE_AND_STAY, tmp_path, "a")
    assert said(process) == "True"
    claims = CellLocks(tmp_path)
    assert not claims.take("a")
    assert f"process {process.pid} on this host since " in claims.holder("a")
    process.kill()
    process.wait(SECONDS)
    assert claims.holder("a") == ""
    assert claims.take("a")
    assert f"process {os.getpid()} on this host" in claims.holder("a")


@pytest.mark.parametrize(
    "child",
    [
        "import subprocess; child = subprocess.Popen([sys.executable, '-c', SLEEP], close_fds=False)",
        "import multiprocessing as m; child = m.get_context('spawn').Process(target=time.sleep, args=(600,)); child.start()",
    ],
    ids=["subprocess", "spawn"],
)
def test_a_child_that_outlives_its_parent_holds_nothing(tmp_path, start, child):
    code = f"SLEEP = 'import time; time.sleep(600)'; claims = CellLocks(Path(sys.argv[1])); claims.take('a'); {child}; "
    parent = start(code + "print(child.pid, flush=True); time.sleep(600)", tmp_path)
    pid = int(said(parent))
    try:
        claims = CellLocks(tmp_path)
        assert not claims.take("a")
        parent.send_signal(signal.SIGKILL)
        parent.wait(SECONDS)
        os.kill(pid, 0)  # the child lives
        assert claims.take("a")
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path, start):
    living, killed = start(TAKE_AND_STAY, tmp_path, "living"), start(TAKE_AND_STAY, tmp_path, "killed")
    assert [said(living), said(killed)] == ["True", "True"]
    killed.kill()
    killed.wait(SECONDS)
    (tmp_path / ".claims" / "orphan.by").write_text("1 1 elsewhere")
    (tmp_path / ".claims" / "probe-of-now").touch()
    (tmp_path / ".claims" / "._killed.lock").touch()  # some systems add such files; it is no claim
    (tmp_path / ".claims" / "probe-of-long-ago").touch()
    os.utime(tmp_path / ".claims" / "probe-of-long-ago", (1, 1))
    assert {"killed.lock", "killed.by"} <= files(tmp_path)
    claims = CellLocks(tmp_path)
    assert files(tmp_path) == {"living.lock", "living.by", "probe-of-now", "._killed.lock"}
    assert not claims.take("living")


def test_many_claims_one_after_another_leave_no_open_file(tmp_path):
    descriptors = Path("/proc/self/fd") if Path("/proc/self/fd").is_dir() else Path("/dev/fd")
    if not descriptors.is_dir():
        pytest.skip("needs a folder of this process's open files")
    claims = CellLocks(tmp_path)
    before = len(os.listdir(descriptors))
    for n in range(300):
        assert claims.take(f"cell-{n}")
        if n % 2:  # two at once
            claims.release(f"cell-{n}")
            claims.release(f"cell-{n - 1}")
    assert len(os.listdir(descriptors)) == before
    assert files(tmp_path) == set()


def test_threads_of_one_object_hold_together(tmp_path):
    """Taken twice by one object is True, in whichever thread, and one release ends it."""
    claims, answers = CellLocks(tmp_path), []
    threads = [threading.Thread(target=lambda: answers.append(claims.take("a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 8
    claims.release("a")
    assert CellLocks(tmp_path).take("a")


def test_a_process_that_is_stopped_inside_the_guard_does_not_stop_others(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GUARD_SECONDS", 0.05)
    first, second = CellLocks(tmp_path), CellLocks(tmp_path)
    assert first.take("a")
    with FileLock(tmp_path / ".claims" / "guard"):
        assert first.take("a")
        assert not second.take("b")
        assert "process" in second.holder("a")
        first.release("a")
        assert files(tmp_path) == {"a.lock"}  # unlocked; without the guard nobody may remove it
    assert second.take("a")
    assert second.take("b")
    second.release_all()
    assert files(tmp_path) == set()


@pytest.mark.parametrize("code", sorted(module.NO_LOCKS), ids=errno.errorcode.get)
def test_without_working_locks_everybody_may_and_is_told(tmp_path, monkeypatch, code):
    def refuses(self: FileLock, *_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(FileLock, "acquire", refuses)
    first, second = CellLocks(tmp_path), CellLocks(tmp_path)
    assert not first.are_honoured
    assert "no working file locks" in first.warning
    assert str(tmp_path) in first.warning
    assert first.take("a")
    assert second.take("a")
    assert second.holder("a") == ""
    assert second.take("b")
    first.release_all()
    second.release("a")
    assert files(tmp_path) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="plants what flock answers")
@pytest.mark.parametrize("answer", ["not implemented", "no lock left", "always granted"])
def test_each_way_in_which_locks_fail_is_found(tmp_path, monkeypatch, answer):
    """The kernel's call itself, under whichever version of filelock: some raise, some warn, some only never lock."""
    import fcntl

    def flock(file: int, operation: int) -> None:
        code = {"not implemented": errno.ENOSYS, "no lock left": errno.ENOLCK}.get(answer)
        if code is not None and operation != fcntl.LOCK_UN:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module, "GUARD_SECONDS", 0.05)
    monkeypatch.setattr(fcntl, "flock", flock)
    claims = CellLocks(tmp_path)
    assert not claims.are_honoured
    assert claims.take("a")
    assert files(tmp_path) == set()


def test_locks_that_end_during_a_run_are_told_then(tmp_path, monkeypatch):
    claims = CellLocks(tmp_path)
    assert claims.take("a")
    assert claims.warning == ""

    def refuses(self: FileLock, *_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    with monkeypatch.context() as during:
        during.setattr(FileLock, "acquire", refuses)
        assert claims.take("b")
        assert "no working file locks" in claims.warning
        claims.release_all()
    assert CellLocks(tmp_path).take("a")


@pytest.mark.parametrize("place", ["results", "results/.claims"])
def test_a_file_in_the_way_is_one_line_with_its_path(tmp_path, place):
    way = tmp_path / place
    way.parent.mkdir(exist_ok=True)
    way.write_text("in the way")
    with pytest.raises(InputError, match="claims of cells cannot be written") as error:
        CellLocks(tmp_path / "results")
    assert str(tmp_path / "results") in str(error.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_one_line(tmp_path):
    claims = CellLocks(tmp_path)
    (tmp_path / ".claims").chmod(0o500)
    try:
        for begin in (lambda: CellLocks(tmp_path), lambda: claims.take("a")):
            with pytest.raises(InputError, match="cannot be written"):
                begin()
    finally:
        (tmp_path / ".claims").chmod(0o700)


@pytest.mark.parametrize("key", ["", "../a", "a/b", ".a", "a b", "a\n", "ü"])
def test_a_key_is_a_file_name(tmp_path, key):
    with pytest.raises(ValueError, match="no key of a claim"):
        CellLocks(tmp_path).take(key)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_takes_nothing_and_releases_nothing(tmp_path, start):
    code = """
claims = CellLocks(Path(sys.argv[1])); claims.take("a")
child = os.fork()
if not child:
    claims.release_all()
    try:
        claims.take("b")
    except RuntimeError:
        os._exit(7)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
time.sleep(600)
"""
    parent = start(code, tmp_path)
    assert said(parent) == "7"
    claims = CellLocks(tmp_path)
    assert not claims.take("a")
    assert f"process {parent.pid} " in claims.holder("a")


@pytest.mark.parametrize(
    "text, shown",
    [
        ("7 {now} elsewhere", "process 7 on host elsewhere since {time}"),
        ("7 86400 elsewhere", "process 7 on host elsewhere since 1970-01-02 "),
        ("", "another process"),
        ("7 soon here", "another process"),
        (None, "another process"),
    ],
)
def test_the_holders_words(tmp_path, text, shown):
    first, second = CellLocks(tmp_path), CellLocks(tmp_path)
    assert second.holder("a") == ""
    first.take("a")
    now = time.time()
    by = tmp_path / ".claims" / "a.by"
    if text is None:
        by.unlink()
    else:
        by.write_text(text.format(now=int(now)))
    assert second.holder("a").startswith(shown.format(time=time.strftime("%H:%M", time.localtime(now))))
    first.release("a")
    assert second.holder("a") == ""


def test_records_and_git_do_not_see_the_claims(tmp_path):
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    with CellLocks(tmp_path) as claims:
        assert claims.take("a")
        assert list(Store(tmp_path).records()) == []
        done = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=all"], capture_output=True, text=True, check=True
        )
    assert done.stdout == ""


def test_claims_load_nothing_heavy():
    heavy = {"torch", "transformers", "datasets", "evaluate", "pandas", "numpy", "pydantic"}
    code = IMPORTS + f"print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


KEYS = st.sampled_from(["a", "b", "a.b"])
STEPS = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 2), KEYS),
    st.tuples(st.just("release"), st.integers(0, 2), KEYS),
    st.tuples(st.just("release all"), st.integers(0, 2), st.just("")),
    st.tuples(st.just("holder"), st.integers(0, 2), KEYS),
    st.tuples(st.just("restart"), st.integers(0, 2), st.just("")),
)


@given(st.lists(STEPS, max_size=25))
@settings(deadline=None, max_examples=60)
def test_any_order_of_steps_is_as_in_a_table_of_holders(steps):
    """The model is a dict from key to holder. After each step exactly the held keys have a lock file."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        root = Path(folder)
        everyone = [CellLocks(root) for _ in range(3)]
        held: dict[str, int] = {}
        stack.callback(lambda: [claims.release_all() for claims in everyone])
        for what, who, key in steps:
            if what == "take":
                assert everyone[who].take(key) == (held.setdefault(key, who) == who)
            elif what == "release":
                everyone[who].release(key)
                if held.get(key) == who:
                    del held[key]
            elif what == "holder":
                assert bool(everyone[who].holder(key)) == (key in held)
            else:
                everyone[who].release_all()
                held = {k: holder for k, holder in held.items() if holder != who}
                if what == "restart":
                    everyone[who] = CellLocks(root)
            assert files(root) == {f"{key}{end}" for key in held for end in (".lock", ".by")}
