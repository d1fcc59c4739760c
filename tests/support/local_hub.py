"""A hub on this machine, for tests: it serves one tiny model or data set, or misbehaves in a way that is asked for."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

COMMIT, NEWER = "1" * 40, "2" * 40
NAME = "someone/tiny"
STALLS, BREAKS, STALLS_IN_FILE, CUTS_FILES = (
    "stalls",
    "breaks off",
    "stalls in a file",
    "cuts files",
)


def oid(file: Path) -> str:
    """What the hub calls the content of a file: by it the hub's library knows that two files are one."""
    return hashlib.sha1(file.read_bytes()).hexdigest()


class LocalHub(ThreadingHTTPServer):
    """Answers as the hub does, from a folder.

    Attributes:
        behaviour: "" for a sound hub, the number that it answers, or one of the words above.
        sound_after: so many questions are answered badly, and the rest well; None for all.
        questions: what it was asked.
        commit: the newest one. It has the same files in all of them.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.behaviour, self.commit = folder, "", COMMIT
        self.sound_after: int | None = None
        self.questions: list[str] = []
        self.is_over = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def files(self) -> list[str]:
        return sorted(
            str(file.relative_to(self.folder)) for file in self.folder.rglob("*") if file.is_file()
        )

    def bad_now(self) -> str:
        """How this question is answered badly; "" for well."""
        return (
            ""
            if self.sound_after is not None and len(self.questions) > self.sound_after
            else self.behaviour
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LocalHub

    def log_message(self, *_: object) -> None:
        """Silent."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub = self.server
        hub.questions.append(f"{self.command} {self.path}")
        bad = hub.bad_now()
        if bad == STALLS:
            hub.is_over.wait(20)
            self.close_connection = True
        elif bad == BREAKS:
            self.close_connection = True
        elif bad.isdecimal():
            self._answer(b'{"error": "no"}', int(bad))
        elif "/resolve/" in self.path:
            revision, _, name = self.path.partition("/resolve/")[2].partition("/")
            self._file(hub.folder / name, self._commit(revision), bad)
        elif "/tree/" in self.path:
            files = [
                {
                    "type": "file",
                    "oid": oid(hub.folder / name),
                    "size": (hub.folder / name).stat().st_size,
                    "path": name,
                }
                for name in hub.files()
            ]
            self._answer(json.dumps(files).encode())
        else:
            names = [{"rfilename": name} for name in hub.files()]
            body = {
                "_id": "1",
                "id": NAME,
                "modelId": NAME,
                "sha": self._commit(self.path.partition("/revision/")[2]),
                "private": False,
                "siblings": names,
            }
            self._answer(json.dumps(body).encode())

    def _commit(self, revision: str) -> str:
        """What a question names, by itself or as a branch."""
        asked = revision.partition("?")[0]
        return asked if asked in (COMMIT, NEWER) else self.server.commit

    def _answer(self, body: bytes, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _file(self, file: Path, commit: str, bad: str) -> None:
        body = file.read_bytes()
        self.send_response(200)
        self.send_header("ETag", f'"{oid(file)}"')
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if bad else body)
            self.wfile.flush()
            if bad == STALLS_IN_FILE:
                self.server.is_over.wait(20)
            self.close_connection = bool(bad)


@contextmanager
def served(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """Inside, the hub's library asks this hub, has an empty cache, and nobody waits long."""
    from huggingface_hub import close_session, constants

    from bench.data import hub as ours

    hub = LocalHub(folder)
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    sleep = time.sleep
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        hub.address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.4)
    monkeypatch.setattr(ours, "ANSWER_SECONDS", 0.4)
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.01)))
    try:
        yield hub
    finally:
        hub.is_over.set()
        hub.shutdown()
        hub.server_close()
        thread.join()
        close_session()
