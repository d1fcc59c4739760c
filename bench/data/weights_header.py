"""Read a file of weights by its header, and compare it with the model that config.json describes.

Nothing that a finished model needs may be drawn at random: transformers would do so with a warning
that nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import InputError, one_line
from bench.user_files import json_of, refuse_lfs_pointer

SAFE = "model.safetensors"
BINARY = "pytorch_model.bin"
SHARDS = ".index.json"
"""The ending of a file of weights where an index of its shards lies in its place."""
WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Parts of names that torch.compile, FSDP and activation checkpointing add, wherever a module was
wrapped."""
PARALLEL = "module."
"""How all names of a model begin that was saved inside DataParallel, DistributedDataParallel or
DeepSpeed."""
LISTED = 3
"""Names of tensors that a message lists; of more it says how many."""

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]


@dataclass(frozen=True)
class Comparison:
    """The tensors that transformers finds and misses when it opens a file as a model of a class.

    Attributes:
        missing: tensors of the model that the file lacks; they would be drawn.
        extra: tensors of the file that the model has no place for.
        mismatched: tensors with the shape in the file and the shape in the model.
        encoder: how the names of the encoder's tensors begin in this class.
    """

    missing: tuple[str, ...]
    extra: tuple[str, ...]
    mismatched: tuple[tuple[str, Shape, Shape], ...]
    encoder: str

    def not_to_be_drawn(self, finished: bool) -> list[str]:
        """Missing tensors without which the model is another one: of a finished model all of them,
        of an encoder that is fine-tuned here those of the encoder, except its pooler."""
        return not_to_be_drawn(self.missing, self.encoder, finished)


def not_to_be_drawn(missing: Any, encoder: str, finished: bool) -> list[str]:
    """As :meth:`Comparison.not_to_be_drawn`, of names in any order."""
    if finished:
        return sorted(missing)
    of_encoder = [name for name in missing if name.startswith(f"{encoder}.")]
    return sorted(name for name in of_encoder if "pooler" not in name)


def shard_files(folder: Path, name: str, said: str) -> list[Path]:
    """The files in which the weights of this name lie: the file itself, or the shards that its
    index names; none of both: [].

    Raises:
        InputError: an index that names no shards, or shards that are not there; or a git-lfs
            pointer.
    """
    # one file, or the shards of an index
    whole = folder / name
    index = folder / f"{name}{SHARDS}"
    if whole.is_file():
        refuse_lfs_pointer(whole, f"{said}: {name}")
        return [whole]
    if not index.is_file():
        return []
    body = json_of(index, f"{said}: {index.name}")
    places = body.get("weight_map") if isinstance(body, dict) else None
    if not isinstance(places, dict) or not places:
        raise InputError(f"{said}: {index.name} names no shards; save the model again")

    # every shard that the index names
    shards = []
    for shard in sorted(set(map(str, places.values()))):
        # an index is somebody's file: it names files of its own folder alone
        if Path(shard).name != shard or not (folder / shard).is_file():
            raise InputError(f"{said}: {index.name} names {shard}, which is not in the folder")
        refuse_lfs_pointer(folder / shard, f"{said}: {shard}")
        shards.append(folder / shard)
    return shards


def weights_file(folder: Path, asked: str, source: str) -> Path:
    """The one file of a folder's weights, which safetensors wrote and nothing cut.

    Args:
        asked: what was typed to name it, which every message names.
        source: what ``export --convert`` takes: the folder, or the name on the hub that gave it.

    Raises:
        InputError: no such file, a git-lfs pointer, weights in shards or of another format, or a
            damaged file.
    """
    # one whole file of the right format
    found = shard_files(folder, SAFE, asked)
    weights = folder / SAFE
    if not found:
        raise InputError(_why_no_weights(folder, asked, source))
    if found != [weights]:
        raise InputError(
            f"{asked}: its weights are in {len(found)} shards; one file is read here. "
            f"To join them: python -m bench export --convert {source} --to {_new_folder(source)}"
        )
    if not shapes_in(weights, asked):
        raise InputError(f"{asked}: {SAFE} has no weights; save the model again")
    return weights


def _new_folder(source: str) -> str:
    """The value of ``--to``: a name on the hub may be the folder's name too."""
    if Path(source).is_dir():
        return "NEW-FOLDER"
    return f"{source} (a folder of that name is read before the hub is asked)"


def _why_no_weights(folder: Path, asked: str, source: str) -> str:
    # what the folder has instead, and what to do with it
    on_hub = not Path(source).is_dir()
    has_binary = any((folder / name).is_file() for name in (BINARY, f"{BINARY}{SHARDS}"))
    way = ""
    if has_binary or on_hub:
        command = f"python -m bench export --convert {source} --to {_new_folder(source)}"
        way = f" With a {BINARY}: {command}"
    elif any(folder.glob("*.onnx")):
        way = (
            " An ONNX file is no model that is scored here: "
            "name the folder that it was exported from."
        )
    return f"{asked}: no {SAFE}; other formats are not read because they can run code.{way}"


def shapes_in(file: Path, said: str) -> dict[str, Shape]:
    """Name -> shape of every tensor of a safetensors file; the tensors themselves are not read.

    Raises:
        InputError: it is cut, or no such file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as opened:
            names = list(opened.keys())
            return {name: tuple(opened.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError, ValueError) as error:
        why = one_line(str(error).strip())[:300]
        raise InputError(
            f"{said}: {file.name} cannot be read ({why}); copy or save it again"
        ) from None


def model_class(config: Any, spans: bool) -> Any:
    """The class by which transformers answers questions, or classifies, with this configuration;
    None where it has none."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_QUESTION_ANSWERING_MAPPING,
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    )

    classes: Any = (
        MODEL_FOR_QUESTION_ANSWERING_MAPPING if spans else MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    )
    return classes.get(type(config), None)


_COMPARED: dict[Any, Comparison] = {}
"""Class, configuration and header -> what was found. A plan asks once for each task."""


def compare(kind: Any, config: Any, shapes: Shapes, folder: Path | None = None) -> Comparison:
    """Open a header as a model of this class, on the meta device: transformers' own rules for names
    decide, and no weight is read.

    Args:
        folder: of the file; a class that opens its files in its own way reads it whole.

    Raises:
        Exception: transformers cannot build such a model; each class says it in its own way.
    """
    import torch
    from transformers import PreTrainedModel

    # a class of its own may open files in its own way
    shipped: Any = PreTrainedModel.from_pretrained
    own_way = kind.from_pretrained.__func__ is not shipped.__func__
    key = (kind, config.to_json_string(use_diff=False), tuple(sorted(shapes.items())))
    if key in _COMPARED:
        return _COMPARED[key]

    # nothing is read or computed: tensors of the meta device stand for those of the file
    options: dict[str, Any] = {"dtype": torch.float32, "output_loading_info": True}
    with _unheard(), torch.random.fork_rng(devices=[]):
        if own_way:
            _, seen = kind.from_pretrained(folder, **options)
        else:
            tensors = {
                name: torch.empty(shape, device="meta") for name, shape in sorted(shapes.items())
            }
            options |= {"device_map": {"": "meta"}, "ignore_mismatched_sizes": True}
            _, seen = kind.from_pretrained(None, config=config, state_dict=tensors, **options)

    # what transformers says of names and shapes
    mismatched = [
        (name, tuple(in_file), tuple(in_model))
        for name, in_file, in_model in seen["mismatched_keys"]
    ]
    _COMPARED[key] = Comparison(
        tuple(sorted(seen["missing_keys"])),
        tuple(sorted(seen["unexpected_keys"])),
        tuple(sorted(mismatched)),
        kind.base_model_prefix,
    )
    return _COMPARED[key]


@contextmanager
def _unheard() -> Iterator[None]:
    """Inside, transformers neither reports what it loads nor draws a progress bar: what it found is
    said in our words."""
    from transformers.utils import logging

    # as it was, to put it back
    verbosity = logging.get_verbosity()
    has_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bar:
            logging.enable_progress_bar()


def note_of_extra(kind: Any, config: Any, weights: Path, said: str) -> str:
    """A note on tensors of a finished model that the class which opens it does not read: a class of
    somebody's own with another head, under the model type of a shipped one, opens as that one."""
    found = compare(kind, config, shapes_in(weights, said), weights.parent)
    if not found.extra:
        return ""
    return (
        f"{said}: {SAFE} has {_listed(found.extra)}, which {kind.__name__} does not read; "
        "if the model answered with them, it is of another class"
    )


def names_taken_off(shapes: Shapes, count_missing: Callable[[Shapes], int]) -> dict[str, str]:
    """Name in the file -> name without what a wrapper put before it as the model was saved.

    Args:
        count_missing: how many tensors a model misses in such a header. Another word before all
            names, as the ``model.`` of a LightningModule, is taken off where the model then misses
            fewer.
    """
    # wrappers within names, then before all of them
    names = {name: _unwrapped(name) for name in shapes}
    while names and all(name.startswith(PARALLEL) for name in names.values()):
        names = {old: _unwrapped(new.removeprefix(PARALLEL)) for old, new in names.items()}

    # another word before all names, if the model then misses less
    while first := _shared_first_word(list(names.values())):
        shorter = {old: new.removeprefix(first) for old, new in names.items()}
        if count_missing(_renamed(shapes, shorter)) >= count_missing(_renamed(shapes, names)):
            break
        names = shorter
    return names


def _unwrapped(name: str) -> str:
    return ".".join(word for word in name.split(".") if word not in WRAPPERS)


def _shared_first_word(names: list[str]) -> str:
    """``bert.`` where all names begin with it; "" where they do not, or where a name is that word
    alone."""
    first = names[0].partition(".")[0] + "." if names else ""
    return first if first and all(name.startswith(first) for name in names) else ""


def _renamed(shapes: Shapes, names: Mapping[str, str]) -> dict[str, Shape]:
    return {names[name]: shape for name, shape in shapes.items()}


def prefix_said(names: Mapping[str, str]) -> str:
    """The prefix that :func:`names_taken_off` takes off, in words; "" where it is nothing."""
    # one prefix of all names, or words within them
    taken = {old.removesuffix(new) for old, new in names.items() if old.endswith(new)}
    if len(taken) == 1 and len(names) == sum(old.endswith(new) for old, new in names.items()):
        (prefix,) = taken
        return f"all names begin with {prefix!r}" if prefix else ""
    words = sorted({word for name in names for word in name.split(".") if word in WRAPPERS})
    return f"its names have {' and '.join(repr(f'{word}.') for word in words)} in them"


def refuse_incomplete(
    kind: Any,
    config: Any,
    weights: Path,
    *,
    finished: bool,
    asked: str,
    source: str,
) -> None:
    """Refuse weights that are not those of this model.

    Args:
        kind: the class that opens them.
        config: its configuration, with the number of labels that it is opened with.
        finished: it is used as it is, so that nothing of it may be drawn. Else it is an encoder
            that is fine-tuned here, whose head, and pooler, may be.
        asked: what was typed to name it, which every message names.
        source: what ``export --convert`` takes.

    Raises:
        InputError: tensors are missing, have other names or other shapes; or transformers cannot
            build such a model.
    """
    shapes = shapes_in(weights, asked)

    def compared(header: Shapes) -> Comparison:
        try:
            return compare(kind, config, header, weights.parent)
        # configurations and models check themselves, each in its own way
        except Exception as error:
            why = one_line(str(error).strip())[:300] or type(error).__name__
            raise InputError(f"{asked}: transformers cannot open it: {why}") from None

    # what is missing, or of another shape
    found = compared(shapes)
    lacking = found.not_to_be_drawn(finished)
    if not lacking and not found.mismatched:
        return
    # a prefix makes everything look absent: it is said before what is absent
    if lacking:
        names = names_taken_off(shapes, lambda header: len(compared(header).missing))
        prefix = prefix_said(names)
        if prefix:
            command = f"python -m bench export --convert {source} --to {_new_folder(source)}"
            raise InputError(
                f"{asked}: {prefix}, as of a model that was wrapped when it was saved. "
                f"To take it off: {command}"
            )
        raise InputError(f"{asked}: {_lacking_said(found, lacking, kind, config, finished)}")
    raise InputError(f"{asked}: {_mismatch_said(found, config, finished)}")


def _listed(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _lacking_said(
    found: Comparison, lacking: list[str], kind: Any, config: Any, finished: bool
) -> str:
    """Which tensors are absent, what is there in their place, and what to do."""
    # an encoder whose head is drawn here, or a finished model
    instead = f"; it has {_listed(found.extra)} in their place" if found.extra else ""
    if not finished:
        return (
            f"its file has no weights for {_listed(lacking)}{instead}; "
            "save the encoder again with save_pretrained"
        )

    # a finished model without a head may be meant as an encoder
    way = "save the whole tuned model with save_pretrained"
    encoder = _encoder_class(config)
    lacks_head = any(not name.startswith(f"{found.encoder}.") for name in lacking)
    if encoder and lacks_head and not found.not_to_be_drawn(finished=False):
        way += (
            f"; or, if it is an encoder that is to be fine-tuned here, write "
            f'"architectures": ["{encoder}"] in its config.json'
        )
    return (
        f"config.json says {kind.__name__}, and {SAFE} lacks {_listed(lacking)}"
        f"{instead}: they would be random. To mend it, {way}"
    )


def _encoder_class(config: Any) -> str:
    """The name of transformers' encoder of this configuration; "" where it has none, or several."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    encoder: Any = MODEL_MAPPING.get(type(config), None)
    return str(encoder.__name__) if isinstance(encoder, type) else ""


def _mismatch_said(found: Comparison, config: Any, finished: bool) -> str:
    """The first tensor of another shape, with both shapes; of a head with both numbers of
    labels."""
    # a matrix says more than its bias
    name, in_file, in_model = min(found.mismatched, key=lambda each: (-len(each[1]), each[0]))
    sizes = [" x ".join(map(str, shape)) or "one number" for shape in (in_file, in_model)]

    # a head for another number of labels, or another tensor
    of_head = not name.startswith(f"{found.encoder}.")
    if of_head and in_file[1:] == in_model[1:] and in_model[:1] == (config.num_labels,):
        head = f"{name} of {SAFE} is {sizes[0]}, for {in_file[0]} labels"
        if finished:
            return (
                f"{head}; config.json names {config.num_labels} labels. "
                "Write all labels in its id2label, in the order of the weights"
            )
        return (
            f"{head}, and the task has {config.num_labels}; name an encoder without a head, "
            "or a ...ForSequenceClassification that was tuned on the task"
        )
    return (
        f"{name} is {sizes[0]} in {SAFE} and {sizes[1]} by config.json; "
        "the two are not of one model: save it again with save_pretrained"
    )
