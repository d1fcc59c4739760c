"""Safetensors files that hold the hash of all their other bytes. No torch.

A single wrong bit is noticed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

HASH = "sha256"
"""The key of the hash in the metadata of a file."""
NOT_SEALED = "0" * 64
"""What stands in the place of the hash while the other bytes are hashed."""
MARK = f'"{HASH}":"'.encode()
"""What stands before the hash. A quote in the text of another value has a backslash before it."""
LARGEST_HEADER = 100_000_000
"""Bytes; safetensors reads no longer one."""
CHUNK = 2**20


def seal(file: Path) -> None:
    """Write its hash into a file whose metadata says ``sha256``: :data:`NOT_SEALED`.

    Raises:
        ValueError: the metadata do not say so.
    """
    with file.open("rb+") as stream:
        place = _place_of_hash(stream)
        if not place:
            raise ValueError(f"{file} has no place for its hash")
        sha256 = _hash_without(stream, place)
        stream.seek(place)
        stream.write(sha256.encode())


def damage_of(file: Path) -> str:
    """Why the content of a file is not what was sealed; "" where it is.

    Raises:
        OSError: the file cannot be read.
    """
    # to open a pipe would wait for who writes into it
    if file.exists() and not file.is_file():
        return "it is no regular file"
    with file.open("rb") as stream:
        place = _place_of_hash(stream)
        if not place:
            return "it has no hash, so an earlier version wrote it or it is damaged"
        stream.seek(place)
        written = stream.read(len(NOT_SEALED))
        if _hash_without(stream, place).encode() != written:
            return "its content is not what was written (sha256)"
    return ""


def _place_of_hash(stream: BinaryIO) -> int:
    """At which byte the hash of a file begins; 0 where its header names none."""
    # a safetensors file begins with the length of its header, which is JSON
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    header = stream.read(min(length, LARGEST_HEADER))
    before = header.find(MARK)
    if before < 0:
        return 0
    return 8 + before + len(MARK)


def _hash_without(stream: BinaryIO, place: int) -> str:
    """The sha256 of a file in which :data:`NOT_SEALED` stands in the place of its hash."""
    # what stands before it, the stand-in, and the rest in pieces
    stream.seek(0)
    hasher = hashlib.sha256(stream.read(place))
    hasher.update(NOT_SEALED.encode())
    stream.seek(place + len(NOT_SEALED))
    while chunk := stream.read(CHUNK):
        hasher.update(chunk)
    return hasher.hexdigest()
