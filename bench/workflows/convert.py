"""A pytorch_model.bin made into safetensors, once and on purpose: the only place where such a file is opened.

It is read with ``weights_only=True``, so that nothing in it can run; what it holds beyond tensors is refused.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from bench.data.checkpoints import TOKENIZER_FILES
from bench.data.hub import downloaded
from bench.errors import InputError
from bench.files import folder_in_place_of
from bench.user_files import json_of

BINARY, SAFE = "pytorch_model.bin", "model.safetensors"
COPIED_FILES = ("config.json", *TOKENIZER_FILES)


def convert(source: str, target: Path, offline: bool = False) -> tuple[Path, int]:
    """Write a folder with the same tensors as safetensors, and configuration and tokenizer beside them.

    A configuration of the first BERTs, which names no model type, gets theirs.

    Args:
        source: a folder with a pytorch_model.bin, or a hub name.

    Returns:
        the new folder, and the number of tensors.

    Raises:
        InputError: nothing there, the target exists, or a file that holds more than tensors.
    """
    import torch
    from safetensors.torch import save_file

    if target.exists():
        raise InputError(f"{target} exists; name a new folder")
    folder = Path(source).expanduser()
    if not folder.is_dir():
        if source.startswith((".", "/", "~")):
            raise InputError(f"{source}: no such folder")
        refused = f"{source}: no folder of that name, and the hub did not give it"
        wanted, advice = [BINARY, *COPIED_FILES], f"name a folder that has a {BINARY}"
        folder = downloaded(source, wanted, offline, refused, advice)
    file = folder / BINARY
    if not file.is_file():
        there = f"; it has {SAFE} already" if (folder / SAFE).is_file() else ""
        raise InputError(f"{source}: no {BINARY} in it{there}")
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
    # each its own memory: safetensors refuses tensors that share it, and tied ones are tied again when loaded
    tensors = {str(name): value.detach().clone().contiguous() for name, value in content.items()}
    with folder_in_place_of(target) as whole:
        save_file(tensors, whole / SAFE, metadata={"format": "pt"})
        for file in (
            file for pattern in COPIED_FILES for file in folder.glob(pattern) if file.is_file()
        ):
            shutil.copyfile(file, whole / file.name)
        config = (
            json_of(whole / "config.json", f"{source}: config.json")
            if (whole / "config.json").is_file()
            else {}
        )
        if "model_type" not in config and any(name.startswith("bert.") for name in tensors):
            (whole / "config.json").write_text(
                json.dumps({**config, "model_type": "bert"}, indent=2), encoding="utf-8"
            )
    return target, len(tensors)
