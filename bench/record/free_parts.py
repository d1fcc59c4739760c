"""The parts of a record that have no fixed form. No torch.

What readers use of them has to be of one type, and all numbers have to be finite.
A method, a later version or somebody's script may add fields; these are kept as they are.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

Amount = Annotated[float, Field(ge=0, le=1e30)]
"""A number of seconds, tokens or FLOPs."""
Count = Annotated[int, Field(ge=0, le=2**62)]
"""A number of parameters, operations, bytes, steps or examples; it may be 0."""
Positive = Annotated[int, Field(ge=1, le=2**62)]
"""A count of what a model has at least one of."""


class Known(BaseModel):
    """The fields that readers use. Others may stand beside them.

    A field whose default is no None may be absent; it may not be null.
    """

    model_config = ConfigDict(
        extra="allow",
        allow_inf_nan=False,
        strict=True,
        defer_build=True,  # many verbs read no record
    )


class NamedCode(Known):
    """The code that made something."""

    of: list[str]
    digest: str = ""
    parts: dict[str, NamedCode | None] = Field(default_factory=dict)


class RecordCode(Known):
    """``Record.code``"""

    version: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    computed_by: NamedCode | None = None


class Text(Known):
    """The text that an artefact was trained on."""

    files: list[str]
    tokens: Count
    passes: Amount | None = None
    """how often it was read, each time in another order: above 1 where it is shorter than
    ``tokens``; None in older records"""
    training_texts_of: list[str] = Field(default_factory=list)


class TrainedOnText(Known):
    """The cost of the training of an artefact."""

    steps: Count = 0
    tokens: Count
    seconds_own: Amount


class PreparedArtefact(Known):
    """One of ``Record.artefacts``"""

    key: Annotated[str, Field(min_length=1)]
    weights: str | None = None
    code: NamedCode | None = None
    beginning: str = ""
    seconds: Amount = 0.0
    text: Text | None = None
    train: TrainedOnText = Field(default_factory=lambda: TrainedOnText(tokens=0, seconds_own=0.0))


class Artefacts(Known):
    """``Record.artefacts``: each further field is one of them."""

    __pydantic_extra__: dict[str, PreparedArtefact]


class TimedWriting(Known):
    """How long texts took to write, in batches of one size."""

    ms_a_text: Amount
    tokens: Amount


class Writing(Known):
    """Measurements of a model that writes texts."""

    batch_1: TimedWriting
    batch_32: TimedWriting
    macs_of_read_token: Count
    macs_of_written_token: Count
    threads: Positive
    bleu: str


class Epochs(Known):
    """The score of each epoch."""

    scores: list[float] = Field(default_factory=list)


class Usage(Known):
    """``Record.usage``"""

    writing: Writing = Field(default_factory=Writing.model_construct)
    epochs: Epochs = Field(default_factory=Epochs)


class RecipeNumbers(Known):
    """``Cell.recipe``"""

    name: str
    epochs: Amount
    batch_size: Positive
    learning_rate: Amount
    max_length: Positive
    schedule: str = ""
    warmup: Amount = 0.0
    weight_decay: Amount = 0.0
    clip: Amount = 0.0
    micro_batch: Count = 0
    optimizer: str = ""
    class_weights: str = "equal"
    stage_optimizers: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list
    )


def not_finite(value: Any, where: str = "") -> str:
    """The first place below a value, ``terms.joint.hard.3``, that is NaN or infinite.

    Returns:
        "" where there is none.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return where or "it"
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list | tuple):
        parts = list(enumerate(value))
    else:
        parts = []
    for name, part in parts:
        place = f"{where}.{name}" if where else str(name)
        if found := not_finite(part, place):
            return found
    return ""


def read_as(form: type[Known]) -> AfterValidator:
    """A check of a part of a record.

    The fields that readers use have to be as ``form`` says, and all numbers finite.
    The part itself stays as it is.
    """

    def check(part: dict[str, Any]) -> dict[str, Any]:
        if wrong := not_finite(part):
            raise ValueError(f"{wrong} is NaN or infinite")
        try:
            form.model_validate(_with_lists(part))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"{place}: {first['msg']}") from None
        return part

    return AfterValidator(check)


def _with_lists(part: Any) -> Any:
    """A part with lists in the place of tuples, as it is read back from JSON."""
    if isinstance(part, dict):
        return {name: _with_lists(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_with_lists(value) for value in part]
    return part


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as methods declare them: each is a text, a number, yes or no, or a list of these.

    Raises:
        ValueError: another value, or a number that is NaN or infinite.
    """
    if wrong := not_finite(settings):
        raise ValueError(f"{wrong} is NaN or infinite")
    for name, value in settings.items():
        values = value if isinstance(value, list | tuple) else [value]
        if not all(map(_is_plain, values)):
            raise ValueError(f"{name}: it is no text, no number and no list of these")
    return settings
