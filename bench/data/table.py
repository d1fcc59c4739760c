"""The columns of a file of examples. A column gets its kind when it is read, and never before."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.data.example_files import READERS
from bench.data.quoting import AS_CSV, AS_TEXT, QUOTE, fields_of_any_length, quotes_of, rows_of
from bench.errors import InputError, one_line
from bench.user_files import refuse_lfs_pointer, refused_as_json, text_of

if TYPE_CHECKING:
    import pyarrow
    from pandas import DataFrame

MOST_COLUMNS = 1000
"""So many columns are read of a file where nobody says which are needed."""
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "signs |", ",": "commas"}


@dataclass(frozen=True)
class Table:
    """The rows of a file, column by column.

    Attributes:
        kind: how messages call the form of the file.
        names: of the columns, in their order.
        array: a column's name -> its values; raises whatever the parser raises.
        class_names: of each column that says them, the names of its codes.
        said: what was inferred, for a plan.
    """

    file: Path
    kind: str
    names: tuple[str, ...]
    length: int
    array: Callable[[str], Any]
    class_names: dict[str, tuple[str, ...]]
    said: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.length

    def has(self, name: str) -> bool:
        """Whether there is such a column, or with a dot such a column within one."""
        outer, *inner = name.split(".")
        if name in self.names:
            return True
        if not inner or outer not in self.names:
            return False
        kind = self.column(outer).type
        for part in inner:
            fields = [kind.field(number).name for number in range(kind.num_fields)]
            if part not in fields:
                return False
            kind = kind.field(fields.index(part)).type
        return True

    def column(self, name: str) -> pyarrow.ChunkedArray | pyarrow.Array:
        """A column's values with their kind.

        Raises:
            InputError: the column cannot be read, or two have the name.
        """
        import pyarrow.compute

        if self.names.count(name) > 1:
            raise InputError(f"{self.file} has two columns called {name!r}; rename one")
        try:
            if name in self.names:
                return self.array(name)
            outer, *inner = name.split(".")
            return pyarrow.compute.struct_field(self.array(outer), inner)
        except Exception as error:  # the parsers raise many kinds; theirs name the row
            if isinstance(error, InputError):
                raise
            raise _unreadable(self.file, self.kind, error) from None

    def __getitem__(self, name: str) -> list[Any]:
        """A column's values as Python has them; None for an empty cell.

        Raises:
            InputError: as :meth:`column`, or bytes that are no text.
        """
        column = self.column(name)
        try:
            return list(column.to_pylist())
        except UnicodeDecodeError as error:  # parquet may call bytes a text that are none
            why = f"{error.reason} at byte {error.start}"
            raise InputError(f"{self.file}: column {name!r} is not UTF-8 text ({why})") from None


@dataclass(frozen=True)
class Tables:
    """The rows of files with the same columns, one file after the other."""

    parts: tuple[Table, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return self.parts[0].names

    @property
    def class_names(self) -> dict[str, tuple[str, ...]]:
        return self.parts[0].class_names

    def has(self, name: str) -> bool:
        """Whether the first file has such a column."""
        return self.parts[0].has(name)

    def __getitem__(self, name: str) -> list[Any]:
        """A column's values, of all files.

        Raises:
            InputError: as of :class:`Table`, or a file has no such column.
        """
        return [value for part in self.parts for value in self._in(part, name)[name]]

    def _in(self, part: Table, name: str) -> Table:
        if part.has(name):
            return part
        raise InputError(
            f"{part.file} has no column {name!r}, which {self.parts[0].file.name} has; "
            "all files of a task have the same columns"
        )

    def to_pandas(self, names: Sequence[str]) -> DataFrame:
        """These columns, without those that cannot be read: nobody needs what nobody reads."""
        from pandas import DataFrame, concat

        # each file by itself: a column may be readable in one alone
        frames = []
        for part in self.parts:
            columns = {}
            for name in names:
                with suppress(InputError):
                    columns[name] = part.column(name).to_pandas()
            frames.append(DataFrame(columns))
        return concat(frames, ignore_index=True)


def table_of(
    file: Path, texts: Sequence[str] = (), columns: Sequence[str] | None = None, quotes: str = ""
) -> Table:
    """The rows of a file.

    Args:
        texts: columns that are text, also where a CSV file has numbers in them.
        columns: those that will be read besides; all if None.
        quotes: ``csv`` or ``text`` (see :mod:`bench.data.quoting`); as the content says if "".

    Raises:
        InputError: a file that cannot be read, has too many columns, or quotes that can be both.
    """
    # the form that its ending says
    suffix = file.suffix.lower()
    kind = READERS.get(suffix)
    if kind is None:
        raise InputError(f"{file} has no ending that can be read; known: {', '.join(READERS)}")
    if not os.path.isfile(file):
        raise InputError(f"{file} cannot be read as {kind}: no such file")
    if not file.stat().st_size:
        raise InputError(f"{file} cannot be read as {kind}: it is empty")
    refuse_lfs_pointer(file, str(file))

    # read by its form
    if kind == "csv":
        return _of_csv(file, "\t" if suffix == ".tsv" else ",", texts, columns, quotes)
    table = _of_json(file) if kind == "json" else _of_arrow(file, kind)
    if columns is None:
        _check_width(file, len(table.names))
    return table


def _check_width(file: Path, count: int) -> None:
    if count > MOST_COLUMNS:
        raise InputError(
            f"{file} has {count:,} columns, and at most {MOST_COLUMNS:,} are looked at; "
            "name those that are needed with :text=COLUMN and :label=COLUMN"
        )


def _unreadable(file: Path, kind: str, error: Exception) -> InputError:
    why = one_line(str(error).strip())[:400] or type(error).__name__
    return InputError(f"{file} cannot be read as {kind}: {why}")


# --- parquet and Arrow


def _of_arrow(file: Path, kind: str) -> Table:
    import pyarrow

    try:
        if kind == "parquet":
            import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(file) as opened:
                schema = opened.schema_arrow
                length = opened.metadata.num_rows

            def read(name: str) -> Any:
                with pyarrow.parquet.ParquetFile(file) as opened:
                    return opened.read(columns=[name]).column(name)

        else:
            whole = _arrow_table(file)
            schema = whole.schema
            length = len(whole)
            read = whole.column
        class_names = _class_names(schema)
    except Exception as error:  # the parsers raise many kinds
        raise _unreadable(file, kind, error) from None
    return Table(file, kind, tuple(schema.names), length, read, class_names)


def _arrow_table(file: Path) -> pyarrow.Table:
    """A file as ``datasets`` writes it, which is a stream, or in Arrow's form of a file."""
    import pyarrow

    with pyarrow.memory_map(str(file)) as source:
        try:
            return pyarrow.ipc.open_stream(source).read_all()
        except pyarrow.ArrowInvalid:
            return pyarrow.ipc.open_file(source).read_all()


def _class_names(schema: pyarrow.Schema) -> dict[str, tuple[str, ...]]:
    """The names of classes that a file of the hub or of ``datasets`` says."""
    if b"huggingface" not in (schema.metadata or {}):
        return {}
    from datasets import ClassLabel, Features

    # as the library datasets reads them
    features = Features.from_arrow_schema(schema)
    return {
        name: tuple(feature.names)
        for name, feature in features.items()
        if isinstance(feature, ClassLabel)
    }


# --- JSON


def _of_json(file: Path) -> Table:
    rows = _json_rows(file)
    # the keys of all rows, in the order in which they come first
    names = tuple(dict.fromkeys(name for row in rows for name in row))

    def read(name: str) -> Any:
        import pyarrow

        values = [row.get(name) for row in rows]
        try:
            return pyarrow.array(values)
        except UnicodeEncodeError:
            halves = (row for row, value in enumerate(values) if _has_surrogate(str(value)))
            row = next(halves, 0)
            raise InputError(
                f"{file}, row {row}: {name} has half a character (a lone surrogate)"
            ) from None
        except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
            why = _where_kind_changes(name, values)
            if why:
                raise InputError(f"{file} cannot be read as json: {why}") from None
            raise

    return Table(file, "json", names, len(rows), read, {})


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _where_kind_changes(column: str, values: Sequence[object]) -> str:
    """A text that says where a column changes its kind; "" where it never does."""
    before: type | None = None
    for number, value in enumerate(values):
        if value is None:
            continue
        # whole numbers and others are of one kind
        kind = float if type(value) is int else type(value)
        if before not in (None, kind):
            words = {str: "text", float: "a number", bool: "a truth value"}
            was = words.get(before, "of another kind")  # type: ignore[arg-type]
            return (
                f"row {number}: {column} is {shown(value)}, and {was} in the rows before it; "
                "write one kind"
            )
        before = kind
    return ""


def _json_rows(file: Path) -> list[Any]:
    """The objects of a JSON file: one a line, or a list of them, or one alone.

    The parquet library's reader ends the process where a file holds anything else.

    Raises:
        InputError: naming the line.
    """

    def no_number(word: str) -> float:
        raise ValueError(f"{word} is not a finite number")

    text = text_of(file, str(file))
    rows: list[Any] = []
    try:
        whole = json.loads(text, parse_constant=no_number)
        rows = whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                with refused_as_json(f"{file}, line {number}"):
                    rows.append(json.loads(line, parse_constant=no_number))

    # each has to be an object
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(
                f"{file}, row {number}: a row should be an object {{...}}, found {shown(row)}"
            )
    if not rows:
        raise InputError(f"{file} has no rows: it is empty")
    return rows


def shown(value: object) -> str:
    """A value in a message: short, on one line."""
    text = one_line(repr(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- CSV and TSV


def _of_csv(
    file: Path, separator: str, texts: Sequence[str], columns: Sequence[str] | None, quotes: str
) -> Table:
    text = text_of(file, str(file))
    if not text.strip():
        raise InputError(f"{file} cannot be read as csv: no columns in it")
    _check_separator(file, text, separator)

    # what quotes are, by what was typed or by the content
    taken = quotes or quotes_of(text, separator)
    if not taken:
        raise InputError(
            f"{file}: its quotes may enclose fields, or be part of the texts; add :quotes={AS_CSV} "
            f"for the one, or :quotes={AS_TEXT} for the other (in a TOML file quotes = "
            f'"{AS_CSV}" or "{AS_TEXT}")'
        )
    with fields_of_any_length():
        try:
            names, fields, length = _columns_of(file, text, separator, taken, texts, columns)
        except csv.Error as error:
            raise _badly_quoted(file, text, separator, error) from None

    def read(name: str) -> Any:
        import pyarrow

        values = fields[name]
        if name in texts:
            return pyarrow.array([value or None for value in values], pyarrow.string())
        return _with_kind(values)

    said: tuple[str, ...] = ()
    is_usual = taken == AS_CSV and separator == ","
    if QUOTE in text and not is_usual and not quotes:
        meaning = {
            AS_CSV: "its quotes enclose fields and are no part of the texts",
            AS_TEXT: "its quotes are part of the texts",
        }
        other = AS_TEXT if taken == AS_CSV else AS_CSV
        said = (f"{file.name}: {meaning[taken]}; :quotes={other} reads them otherwise",)
    return Table(file, "csv", names, length, read, {}, said)


def _check_separator(file: Path, text: str, separator: str) -> None:
    """Refuse a file whose header has no separator of its ending, but another one."""
    # the first line that is not blank
    header = text.lstrip().partition("\n")[0]
    if separator in header:
        return
    for other, word in SEPARATORS.items():
        if other in header:
            way_out = "save it with commas, or with tabs as .tsv"
            if other == "\t":
                way_out = "rename it to .tsv, or save it with commas"
            if other == "," and separator == "\t":
                way_out = "rename it to .csv, or save it with tabs"
            raise InputError(f"{file} seems to be separated by {word}; {way_out}")


def _columns_of(
    file: Path,
    text: str,
    separator: str,
    quotes: str,
    texts: Sequence[str],
    columns: Sequence[str] | None,
) -> tuple[tuple[str, ...], dict[str, list[str]], int]:
    """The names of all columns, the fields of those that are needed, and the number of rows."""
    rows = rows_of(text, separator, quotes)
    _, header = next(rows, (0, [""]))
    # as pandas calls a column without a name
    names = tuple(name or f"Unnamed: {number}" for number, name in enumerate(header))

    # the columns that are kept, and the numbers of their fields
    needed = set(names)
    if columns is None:
        _check_width(file, len(names))
    else:
        needed &= {*texts, *columns}
    fields: dict[str, list[str]] = {name: [] for name in needed}
    places = [(number, fields[name]) for number, name in enumerate(names) if name in needed]

    # every row has as many fields as the header
    length = 0
    for line, row in rows:
        if len(row) != len(header):
            raise _ragged(file, length, line, len(row), len(header), separator)
        for number, values in places:
            values.append(row[number])
        length += 1
    return names, fields, length


def _ragged(file: Path, row: int, line: int, count: int, header: int, separator: str) -> InputError:
    # what is probably wrong
    fix = "put a text with a comma into quotes, and end no row with a comma"
    if separator == "\t":
        fix = "take out tabs and line breaks that are in a text"
    if count < header:
        fix = "write what is missing, or take the row out"
    fields = "field" if count == 1 else "fields"
    return InputError(
        f"{file}, row {row}: it has {count} {fields}, the header {header}; {fix} "
        f"(line {line} of the file)"
    )


def _badly_quoted(file: Path, text: str, separator: str, error: csv.Error) -> InputError:
    """The error for a quote that is not closed, or closed too early, with its row."""
    # the rows before the quote that is wrong
    sound = []
    with suppress(csv.Error):
        for line, _ in rows_of(text, separator, AS_CSV):
            sound.append(line)
    # the header is none of the rows
    row = len(sound) - 1
    line = max(sound, default=0)
    return InputError(
        f"{file}, row {row}: {one_line(str(error))}, behind line {line} of the file; "
        "double the quotes that are in a text, "
        f"or add :quotes={AS_TEXT} if quotes are part of the texts"
    )


def _with_kind(fields: Sequence[str]) -> Any:
    """Fields as numbers, truth values or texts, whichever suits all, as pandas decides."""
    import pandas
    import pyarrow

    if not fields:
        return pyarrow.array([], pyarrow.string())
    # one column, written so that no field is taken apart
    lines = io.StringIO()
    csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [field] for field in fields
    )
    lines.seek(0)
    # pandas would read words like None and NA as missing
    frame = pandas.read_csv(
        lines,
        header=None,
        keep_default_na=False,
        na_values=[""],
        skip_blank_lines=False,
        low_memory=False,
    )
    return pyarrow.Array.from_pandas(frame[0])
