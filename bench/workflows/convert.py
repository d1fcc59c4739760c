"""Weights of others made into one safetensors file, once and on purpose: a pytorch_model.bin,
shards, names with a prefix.

This is the only place where a pytorch_model.bin is opened: with ``weights_only=True``, so that
nothing in it can run; what it holds beyond tensors is refused.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.data.checkpoints import TOKENIZER_FILES, config_of
from bench.data.hub import downloaded
from bench.data.weights_header import (
    BINARY,
    SAFE,
    SHARDS,
    Shape,
    Shapes,
    compare,
    model_class,
    names_taken_off,
    prefix_said,
    shapes_in,
    shard_files,
)
from bench.errors import InputError
from bench.files import folder_in_place_of
from bench.user_files import json_of

if TYPE_CHECKING:
    from torch import Tensor

COPIED_FILES = ("config.json", *TOKENIZER_FILES)
WEIGHT_FILES = ("model-*.safetensors", "pytorch_model-*.bin")
"""Patterns of the shards that the hub gives."""


@dataclass(frozen=True)
class Converted:
    """The new folder, the number of its tensors, and what was done with their names, in words; ""
    where nothing was."""

    folder: Path
    tensors: int
    renamed: str


def convert(source: str, target: Path, offline: bool = False) -> Converted:
    """Write a folder with the same tensors as one safetensors file, and configuration and tokenizer
    beside it.

    Shards are joined. What a wrapper put before the names (``module.``, ``_orig_mod.``) is taken
    off. A configuration of the first BERTs, which names no model type, gets theirs.

    Args:
        source: a folder, or a hub name.

    Raises:
        InputError: nothing there or nothing to convert, the target exists, or a file that holds
            more than tensors.
    """
    from safetensors.torch import save_file

    if target.exists():
        raise InputError(f"{target} exists; name a new folder")
    folder = _folder_of(source, offline)
    safe = shard_files(folder, SAFE, source)
    binary = shard_files(folder, BINARY, source)
    body = _config_body(folder, source)
    weights = _weights_to_write(safe, binary, body, source)
    if not weights.tensors:
        raise InputError(f"{source}: its weights are empty; save the model again")
    tensors = {weights.names[name]: value for name, value in weights.tensors.items()}
    with folder_in_place_of(target) as whole:
        save_file(tensors, whole / SAFE, metadata={"format": "pt"})
        for pattern in COPIED_FILES:
            for file in folder.glob(pattern):
                if file.is_file():
                    shutil.copyfile(file, whole / file.name)
        if "model_type" not in body and any(name.startswith("bert.") for name in tensors):
            (whole / "config.json").write_text(
                json.dumps({**body, "model_type": "bert"}, indent=2), encoding="utf-8"
            )
    return Converted(target, len(tensors), prefix_said(weights.names))


@dataclass(frozen=True)
class Weights:
    """The tensors of a folder, and what they are called in the new file."""

    tensors: dict[str, Tensor]
    names: dict[str, str]
    """name in the folder -> name that is written"""


def _weights_to_write(
    safe: list[Path], binary: list[Path], body: Mapping[str, Any], source: str
) -> Weights:
    """The weights of a folder, in the one of its formats that has something to convert.

    Args:
        safe: its safetensors files.
        binary: its pytorch_model.bin, or the shards of it.
        body: its configuration.

    Raises:
        InputError: there is nothing to convert, or a file that holds more than tensors.
    """
    if safe:
        shapes: dict[str, Shape] = {}
        for file in safe:
            shapes |= shapes_in(file, source)
        names = _names_to_write(shapes, body, source)
        if len(safe) > 1 or prefix_said(names):
            return Weights(_read_safe(safe), names)
    # a file that is read as it stands is left alone; a pytorch_model.bin beside it is an older
    # copy, or another format
    if binary:
        tensors = _read_binary(binary)
        sizes = {name: tuple(value.shape) for name, value in tensors.items()}
        return Weights(tensors, _names_to_write(sizes, body, source))
    if safe:
        raise InputError(
            f"{source}: no {BINARY} in it; it has {SAFE} already, in one file, and no prefix "
            "before its names, so that there is nothing to convert"
        )
    raise InputError(f"{source}: no {BINARY} in it, and no {SAFE} in shards")


def _folder_of(source: str, offline: bool) -> Path:
    """The folder that was typed, or the one into which the hub's files are downloaded."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if source.startswith((".", "/", "~")):
        raise InputError(f"{source}: no such folder")
    refused = f"{source}: no folder of that name, and the hub did not give it"
    whole = [f"{name}{end}" for name in (SAFE, BINARY) for end in ("", SHARDS)]
    wanted = [*whole, *WEIGHT_FILES, *COPIED_FILES]
    return downloaded(source, wanted, offline, refused, f"name a folder that has a {BINARY}")


def _config_body(folder: Path, source: str) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        return {}
    body = json_of(file, f"{source}: config.json")
    if not isinstance(body, dict):
        raise InputError(f"{source}: config.json does not describe a model")
    return body


def _names_to_write(shapes: Shapes, body: Mapping[str, Any], source: str) -> dict[str, str]:
    """Name in the file -> name that is written, without what a wrapper put before it.

    Raises:
        InputError: two tensors would have one name.
    """

    def count_missing(header: Shapes) -> int:
        # without a configuration that transformers knows only wrappers are known
        try:
            config = config_of(body)
            return len(compare(model_class(config, spans=False), config, header).missing)
        except Exception:  # configurations and models check themselves, each in its own way
            return 0

    names = names_taken_off(shapes, count_missing)
    seen: dict[str, str] = {}
    for old, new in names.items():
        if new in seen:
            raise InputError(
                f"{source}: without its prefix {old} would have the name of {seen[new]}; "
                "rename one of them. Nothing was written"
            )
        seen[new] = old
    return names


def _read_safe(files: list[Path]) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= load_file(file)
    return tensors


def _read_binary(files: list[Path]) -> dict[str, Tensor]:
    """The tensors of a pytorch_model.bin, or of its shards.

    Raises:
        InputError: a file that holds more than tensors, or could run code.
    """
    import torch

    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        # unpickling raises many kinds; every one of them means the same here
        except Exception as error:
            # its message recommends to open the file all the same
            named = re.search(r"GLOBAL ([\w.]+)", str(error))
            why = f"it names {named[1]}" if named else type(error).__name__
            raise InputError(
                f"{file}: not a file of plain tensors ({why}); nothing was written"
            ) from None
        if not isinstance(content, dict) or not all(
            isinstance(value, torch.Tensor) for value in content.values()
        ):
            raise InputError(f"{file}: expected names with a tensor each; nothing was written")
        for name, value in content.items():
            # each its own memory: safetensors refuses tensors that share it, and tied
            # ones are tied again when loaded
            tensors[str(name)] = value.detach().clone().contiguous()
    return tensors
