"""Whether a column of labels holds classes or numbers on a scale, and which classes.

How a file stores a label says little: pandas writes classes with a missing one as 0.0 and 1.0, and
JSON has scores as text. What is not evident is refused, with the setting that decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from bench.data.labels import (
    CLASSES,
    DROP,
    KEEP,
    MARKERS,
    NUMBER,
    REGRESSION,
    number_of,
    refuse_lists,
    unlabelled_rows,
)
from bench.errors import InputError, one_line

if TYPE_CHECKING:
    from pandas import Series

MOST_CLASSES = 200
"""Values that are taken for classes unasked."""
FEW = 20
"""Different numbers up to which they seem to be codes of classes, whichever they are."""
WRITTEN_LIST = r"[\[({].*[\])}]|[01]([ ,;|]+[01])+"
"""A list as text, or a 0 or 1 for each class."""
RARE = Fraction(2, 5)
"""Share of an even part of the training rows below which a class is rare: of two classes a fifth
of all rows, of twelve a thirtieth. Accuracy alone says little of such a class."""


def classes_of(values: Series, kind: str, unlabelled: str, where: str) -> Sequence[str]:
    """The names of the classes in the order of their codes; none for a regression.

    Args:
        values: the column of the labels, all its rows, as the file stores them.
        kind: ``classes`` or ``regression`` as it was typed; "" to read it off the values.
        unlabelled: what becomes of rows without a label, of :data:`bench.data.labels.UNLABELLED`.
        where: how messages begin.

    Raises:
        InputError: several labels for one text, no label, or values that may be of either kind.
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    label = str(values.name)
    refuse_lists(values.tolist(), where, label)
    left_out = unlabelled_rows(values.tolist(), (), kind == REGRESSION)
    empty = [row for row, what in left_out.items() if not what]
    if empty and unlabelled != DROP:
        raise InputError(
            f"{where}, row {empty[0]}: {label}: the cell is empty, in {len(empty):,} of "
            f"{len(values):,} rows of train; write a label there, or add :unlabelled=drop to leave "
            "such rows out"
        )
    if unlabelled == DROP:
        # -1 is a score like others where there are decimals
        is_scale = any(isinstance(value, float) and value % 1 > 0 for value in values)
        dropped = [row for row, what in left_out.items() if not what or not is_scale]
        values = values.drop(values.index[dropped])
    if not len(values):
        raise InputError(f"{where}: no row of {label} has a label")

    values = values.infer_objects()
    are_numbers = is_numeric_dtype(values) and not is_bool_dtype(values)
    names = (_of_numbers if are_numbers else _of_words)(values, kind, where)
    if names:
        _check_names(names, values, kind, unlabelled, where)
    return names


def _of_numbers(values: Series, kind: str, where: str) -> Sequence[str]:
    """Names of classes that are stored as numbers; none for a regression."""
    distinct = sorted(values.unique().tolist())
    are_whole = all(float(value).is_integer() for value in distinct)
    are_codes = are_whole and _look_like_codes(distinct, len(values))
    are_floats = values.dtype.kind == "f"
    if kind == REGRESSION:
        return ()
    if not kind and are_floats and not are_codes:
        return ()
    if not kind and are_floats:
        raise InputError(
            f"{where}: {values.name} has {_listed(distinct)}: numbers with a decimal point that "
            "are all whole: classes, or a scale? Add :kind=classes or :kind=regression"
        )
    if not kind and not are_codes:
        raise _either(values, distinct, where)
    if are_whole:
        return [str(int(value)) for value in distinct]
    return [repr(float(value)) for value in distinct]


def _look_like_codes(distinct: Sequence[float], rows: int) -> bool:
    """Whether whole numbers seem to be codes: few that come again, or a count from 0 or 1 on."""
    is_count = distinct[0] in (0, 1) and distinct[-1] - distinct[0] == len(distinct) - 1
    return is_count or (len(distinct) <= FEW and 2 * len(distinct) <= rows)


def _either(values: Series, distinct: Sequence[object], where: str) -> InputError:
    """The question where numbers may be classes or a scale."""
    return InputError(
        f"{where}: {values.name} has {len(distinct):,} different numbers, {_listed(distinct)}: a "
        "scale, or classes? Add :kind=regression or :kind=classes"
    )


def _of_words(values: Series, kind: str, where: str) -> Sequence[str]:
    """Names of classes that are stored as text or as truth values; none for a regression."""
    texts = values.map(str)
    is_number = texts.map(lambda text: re.fullmatch(NUMBER, text.strip()) is not None)
    fractions = texts[is_number].map(lambda text: (number_of(text) or 0.0) % 1 != 0)
    words = texts[~is_number]
    if kind == REGRESSION:
        if len(words):
            raise InputError(
                f"{where}, row {words.index[0]}: {values.name} is {words.iloc[0]!r}, which is no "
                "number; a regression needs a number in every row"
            )
        return ()

    # a word among scores is a slip of the pen; so is nan, which names no class
    are_missing = bool((words.str.strip().str.lower() == "nan").all())
    are_few = 0 < len(words) < len(values) / 2
    if not kind and are_few and (fractions.any() or are_missing):
        raise InputError(
            f"{where}, row {words.index[0]}: {values.name} is {words.iloc[0]!r}, but a number in "
            "most rows; write a number there, or the names of the classes into a TOML file"
        )
    names = sorted(set(texts))
    if kind:
        return names
    if not len(words) and not all(_is_whole(name) for name in names):
        raise InputError(
            f"{where}: {values.name} is text that is all numbers, {_listed(names)}: a scale, or "
            "classes? Add :kind=regression or :kind=classes"
        )
    if not len(words):
        numbers = sorted({int(name) for name in names})
        if not _look_like_codes(numbers, len(values)):
            raise _either(values, numbers, where)
    _refuse_several(names, values, where)
    return names


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number of a size that codes have; Python converts no endless
    ones."""
    return re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text) is not None


def _refuse_several(names: Sequence[str], values: Series, where: str) -> None:
    """Raises InputError: words seem to be several classes each, like ``drama,comedy`` or a list."""
    several = [name for name in names if re.fullmatch(WRITTEN_LIST, name.strip())]
    for sign in ("|", ";", ","):
        parts = {name: _parts(name, sign) for name in names}
        counts = Counter(part for each in parts.values() for part in set(each))
        for name, each in parts.items():
            # a class may have a comma in its name: then its parts are no classes of other rows
            if len(each) > 1 and all(counts[part] > 1 for part in each):
                several.append(name)
    if several:
        row = values.index[values.map(str) == several[0]][0]
        raise InputError(
            f"{where}, row {row}: {values.name} is {several[0]!r}: several labels for one text are "
            "not supported; give each row one class. If it is the name of one class, add "
            ":kind=classes"
        )


def _parts(name: str, sign: str) -> list[str]:
    return [part.strip() for part in name.split(sign)]


def _check_names(
    names: Sequence[str], values: Series, kind: str, unlabelled: str, where: str
) -> None:
    """Raises InputError: names that cannot be classes, or that nobody would mean as classes."""
    label = values.name
    if len(names) < 2:
        raise InputError(f"{where}: {label} is {names[0]!r} in all rows; a task has two classes")
    plain: dict[str, str] = {}
    for name in names:
        if (other := plain.setdefault(name.strip().lower(), name)) != name:
            raise InputError(
                f"{where}: {label} has {other!r} and {name!r}, which would be two classes"
            )
    if unlabelled != KEEP:
        _refuse_markers(names, values, where)
    if kind == CLASSES:
        return
    if len(names) > MOST_CLASSES:
        raise InputError(
            f"{where}: {label} has {len(names):,} different values; 2 to {MOST_CLASSES} can be "
            "classes unasked. Name them in a TOML file (docs/add-a-task.md), or add :kind=classes"
        )
    if len(names) > FEW and 2 * len(names) > len(values):
        raise InputError(
            f"{where}: {label} has {len(names):,} different values in {len(values):,} rows, which "
            "are hardly classes; name another column with :label=COLUMN, or add :kind=classes"
        )


def _refuse_markers(names: Sequence[str], values: Series, where: str) -> None:
    """Raises InputError: one of the classes seems to mark rows without a label."""
    marker = next((name for name in names if name.strip().lower() in MARKERS), None)
    others = [name for name in names if name != marker]
    if marker is not None and all(_is_whole(name) for name in others):
        # -1, 0 and 1 are often three classes of opinions; more codes than these count from 0 on
        numbers = sorted(int(name) for name in others)
        is_count = numbers == list(range(len(numbers)))
        if marker == "-1" and (not is_count or len(numbers) < 3):
            marker = None
    if marker is None:
        return
    count = int((values.map(str) == marker).sum())
    raise InputError(
        f"{where}: {values.name} is {one_line(repr(marker))} in {count:,} of {len(values):,} rows "
        "of train, which often marks rows without a label; add :unlabelled=drop to leave them "
        "out, or :unlabelled=keep if it is a class"
    )


def rare_class(values: Series, names: Sequence[str], unlabelled: str) -> str:
    """The smallest class and its rows in words, where it is rare by :data:`RARE`; else "".

    Args:
        values: the column of the labels, all its rows: names, or codes of ``names``.
        names: of the classes in the order of their codes.
        unlabelled: what becomes of rows without a label, of :data:`bench.data.labels.UNLABELLED`.
    """
    if unlabelled == DROP:
        left_out = unlabelled_rows(values.tolist(), names, False)
        values = values.drop(values.index[list(left_out)])
    rows_of = Counter(values.tolist())
    if not rows_of:
        return ""
    smallest = min(rows_of, key=lambda value: rows_of[value])
    rows = rows_of[smallest]
    if rows * len(rows_of) >= RARE * len(values):
        return ""
    if isinstance(smallest, float) and smallest.is_integer():
        smallest = int(smallest)
    # codes of a file that names its classes, as those of the hub do, have no name in the column
    is_code = isinstance(smallest, int) and str(smallest) not in names and smallest < len(names)
    name = names[smallest] if is_code else smallest
    return f"{one_line(str(name))[:40]} has {rows:,} of {len(values):,} rows"


def _listed(values: Sequence[object]) -> str:
    """The first and last of some values, for a message."""
    shown = [one_line(str(value))[:40] for value in values]
    if len(shown) > 4:
        shown = [*shown[:2], "...", shown[-1]]
    return ", ".join(shown)
