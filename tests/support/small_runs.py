"""Whole runs of a few seconds on a tiny teacher, and what of their records has to be equal however they are carried out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny

from bench import api

ROWS = f"finetune:{tiny.SHAPE},kd:{tiny.SHAPE},microbert:{tiny.SHAPE},moebert,theseus,mtdnn"
LONG = {"epochs": 240.0, "methods": f"finetune:{tiny.SHAPE},kd:{tiny.SHAPE}"}
"""Changes of a request with which each training takes some seconds."""


def requests(folder: Path, teacher: Path, data: Path) -> Callable[..., api.Request]:
    """``make("results", jobs=2)``: a request whose results and reports lie below a folder."""
    corpus = folder / "corpus.txt"
    corpus.write_text("the cat runs in the house .\na bird sings on the old tree .\n" * 30)

    def make(results: str = "results", **changes: Any) -> api.Request:
        given = {
            "methods": ROWS,
            "tasks": "rte,sst2",
            "data": str(data),
            "teacher": str(teacher),
            "results": folder / results,
            "reports": folder / "reports",
            "corpus": (str(corpus),),
            "corpus_tokens": 300,
            "epochs": 2.0,
            "threads": 1,
        }
        return api.Request(**{**given, **changes})

    return make


def words_of(request: api.Request) -> list[str]:
    """A request of these as the words of a command that asks nothing."""
    words = ["run", "--methods", request.methods, "--tasks", request.tasks, "--data", request.data]
    words += [
        "--teacher",
        request.teacher,
        "--results",
        str(request.results),
        "--reports",
        str(request.reports),
    ]
    words += ["--corpus", *request.corpus, "--corpus-tokens", str(request.corpus_tokens)]
    return [*words, "--epochs", f"{request.epochs:g}", "--threads", str(request.threads), "--yes"]


def ends(request: api.Request) -> dict[tuple, tuple]:
    """Everything of the records that does not tell the time."""
    found = {}
    store = api.Store(request.results)
    for record in store.records():
        known = timeless(record.model_dump(mode="json"))
        kept = (
            "weights",
            "scores",
            "terms",
            "gradient_norms",
            "gradient_shares",
            "usage",
            "status",
            "artefacts",
            "train",
        )
        arrays = {name: values.tobytes() for name, values in store.predictions(record).items()}
        found[record.cell.label, record.cell.tasks, record.cell.seed] = (
            arrays,
            *(known[name] for name in kept),
        )
    return found


def timeless(value: Any) -> Any:
    """Without the fields that count seconds."""
    if not isinstance(value, dict):
        return value
    return {name: timeless(part) for name, part in value.items() if "seconds" not in name}
