"""Runs in processes of their own, which a test watches, kills and interrupts. Linux alone: it reads /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from small_runs import words_of

from bench import api
from bench.run_status import under_way


class Running:
    """``bench run --jobs 2`` in processes of its own."""

    def __init__(self, request: api.Request, cache: Path, *more: str) -> None:
        self.cache = cache
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench", *words_of(request), "--jobs", "2", *more],
            env={**os.environ, "BERT_BENCH_CACHE": str(cache)},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )

    def workers(self, title: str = "") -> dict[int, str]:
        """Process numbers of workers that train something with this in its title now, and what it is."""
        found = {}
        for file in (self.cache / "progress").glob("*/*/*.json"):
            try:
                body = json.loads(file.read_text())
            except (OSError, ValueError):
                continue
            if (
                title in body["title"]
                and body["done"]
                and body["done"] < body["total"]
                and alive(body["process"])
            ):
                found[body["process"]] = body["title"]
        return found

    def wait_for(self, title: str, seconds: float = 400.0) -> int:
        """The process number of the first worker that trains this."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if found := self.workers(title):
                return next(iter(found))
            time.sleep(0.02)
        raise AssertionError(f"nothing trained {title}: {self.process.communicate(timeout=60)[1]}")

    def ended(self) -> str:
        """What it said until its end."""
        return self.process.communicate(timeout=600)[1]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(processes, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while any(alive(one) for one in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


class WhileTraining(threading.Thread):
    """Acts once on a process that is in the middle of training a student: ``act(process)`` says whether it was the right one."""

    def __init__(self, act: Callable[[int], bool]) -> None:
        super().__init__(daemon=True)
        self.act, self.acted, self.ended = act, False, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.acted and not self.ended.wait(0.1):
            for body in (body for run in under_way() for body in run["jobs"]):
                trains = "seed 0" in body["title"] and 0 < body["done"] < body["total"]
                self.acted = self.acted or (trains and self.act(body["process"]))
