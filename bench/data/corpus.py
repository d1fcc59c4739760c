"""Unlabelled text for pre-training: a user's files, a data set of the hub, or the sample
suite's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.data import sample_suite
from bench.data.hub import DATA_SET, downloaded
from bench.errors import InputError
from bench.user_files import refuse_lfs_pointer, text_of

CHARACTERS_A_TOKEN = 8
"""So many characters of a data set are read for each token that is wanted: English has four or
five."""
TOKENS_A_WORD = 1.3
"""Characters of a token of BERT's vocabulary, where there is no tokenizer to count with; chosen by
hand."""


@dataclass
class Corpus:
    """Documents in the order of their files. Another process reads them again where it needs them.

    Attributes:
        name: what a report prints.
        files: names of the files it was read from, those of the hub with their revision; none for
            the sample suite's sentences.
        asked, tokens: what :func:`read_corpus` reads it again from; the hub's by their revision.
        sha256: of the documents.
    """

    name: str
    files: tuple[str, ...]
    asked: tuple[str, ...]
    tokens: int
    sha256: str = ""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks whose training texts it is; none for other text."""
        return ()

    @cached_property
    def documents(self) -> Sequence[str]:
        """Raises InputError: the text is not there any more, or is another one."""
        try:
            again = read_corpus(self.asked, self.tokens, offline=True)
        except InputError:  # a machine that does not share the hub's cache fetches it
            again = read_corpus(self.asked, self.tokens)
        if again.fingerprint() != self.sha256:
            raise InputError(
                f"the text {self.name} has changed since this run began; start it again"
            )
        return again.documents

    def fingerprint(self) -> str:
        """sha256 of the documents."""
        if not self.sha256:
            digest = hashlib.sha256()
            for document in self.documents:
                digest.update(document.encode() + b"\x1e")
            self.sha256 = digest.hexdigest()
        return self.sha256

    def __getstate__(self) -> dict[str, object]:
        self.fingerprint()
        return {name: value for name, value in vars(self).items() if name != "documents"}


def read_corpus(asked: Sequence[str], tokens: int, offline: bool = False) -> Corpus:
    """Read text files, parquet files, data sets of the hub, or the sample suite's sentences.

    Text files have one document a line, parquet files a column ``text``.

    Args:
        asked: files and names ``hub:NAME/CONFIG@REVISION``; none for the sample suite's sentences.
        tokens: how many will be read of it. Files are read as a whole, since their content
            identifies what is made from them; of a data set about so much is read, and no more is
            downloaded than the files that hold it.

    Raises:
        InputError: a file that is missing, unreadable or without that column; a data set that the
            hub does not give; or no text.
    """
    if not asked:
        corpus = Corpus(f"sentences of the sample suite {sample_suite.VERSION}", (), (), tokens)
        corpus.documents = sample_suite.corpus()
        return corpus
    documents: list[str] = []
    names: list[str] = []
    pinned: list[str] = []
    for name in asked:
        if name.startswith("hub:"):
            read, commit = _from_hub(name, tokens, offline)
            names.append(commit)
        else:
            read = _from_file(name)
            commit = str(Path(name).expanduser().absolute())
            names.append(Path(name).name)
        documents += read
        pinned.append(commit)
    if not documents:
        raise InputError(f"--corpus {', '.join(asked)}: no text in it")
    corpus = Corpus(", ".join(names), tuple(names), tuple(pinned), tokens)
    corpus.documents = documents
    return corpus


def _from_hub(asked: str, tokens: int, offline: bool) -> tuple[list[str], str]:
    """The first documents of a data set's training split, and its name with its revision."""
    parts = DATA_SET.fullmatch(asked)
    if parts is None:
        raise InputError(
            f"--corpus {asked}: name a data set like hub:Salesforce/wikitext/wikitext-103-raw-v1, "
            "that is hub:NAME/CONFIG"
        )
    name, config, revision = parts.groups()
    refused = (
        f"the pre-training reads the text {asked.partition('@')[0]}, which the hub did not give"
    )
    instead = "name a text with --corpus FILE, or type --corpus sample for generated sentences"
    documents: list[str] = []
    characters_left = CHARACTERS_A_TOKEN * tokens
    shard = 0
    shards = 1
    commit = ""
    folders = [f"{config}/"] if config else ["", "data/"]
    while characters_left > 0 and shard < shards:
        # the next file of the split; the commit of the first is read on
        patterns = [f"{folder}train-{shard:05}-of-*.parquet" for folder in folders]
        root = downloaded(name, patterns, offline, refused, instead, "dataset", commit or revision)

        # the first that is there, read as far as needed
        files: list[Path] = []
        for pattern in patterns:
            files += sorted(root.glob(pattern))
        if not files:
            where = "what was downloaded before" if offline else "it"
            raise InputError(f"{refused} ({where} has no file {patterns[0]}); {instead}")
        for document in _parquet(files[0]):
            documents.append(document)
            characters_left -= len(document)
            if characters_left <= 0:
                break
        shard += 1
        shards = int(files[0].stem.rpartition("-")[2])
        commit = root.name
    return documents, f"{asked.partition('@')[0]}@{commit}"


def _from_file(name: str) -> list[str]:
    path = Path(name).expanduser()
    if not os.path.isfile(path):
        raise InputError(
            f"--corpus {name}: no such file; give text with one document a line, parquet with a "
            "text column, or hub:NAME/CONFIG"
        )
    if path.suffix == ".parquet":
        return list(_parquet(path))
    return [line.strip() for line in text_of(path, f"--corpus {path}").split("\n") if line.strip()]


def _parquet(path: Path) -> Iterator[str]:
    """The column ``text``, without empty ones, as far as somebody reads."""
    import pyarrow
    import pyarrow.parquet

    row = 0
    refuse_lfs_pointer(path, str(path))
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if names.count("text") != 1:
                what = "several columns" if "text" in names else "no column"
                raise InputError(f"--corpus {path}: {what} 'text'; it has: {', '.join(names)}")
            for batch in file.iter_batches(columns=["text"]):
                for text in batch["text"].to_pylist():
                    if text is not None and not isinstance(text, str):
                        found = repr(text)[:80]
                        raise InputError(
                            f"--corpus {path}, row {row}: text should be text, found {found}"
                        )
                    if text:
                        yield text
                    row += 1
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(f"--corpus {path}: not a parquet file ({error})") from None
