"""Tiny questions in the files of SQuAD."""

from __future__ import annotations

import json
from pathlib import Path

SENTENCE = (
    "the cat sleeps in the red house the dog runs to the old tree a bird sings on the big river"
)


def write_tiny(folder: Path, questions: int = 24, version: str = "1.1", length: int = 18) -> Path:
    """The official JSON files of questions like "where is the cat ?", answered by the two words behind the animal's."""
    animals = ["cat", "dog", "bird", "fish"]
    for split, shift in (("train", 0), ("dev", 1)):
        paragraphs = []
        for number in range(questions):
            animal, place = (
                animals[number % 4],
                ["red house", "old tree", "big river"][(number // 4 + shift) % 3],
            )
            before = " ".join((SENTENCE.split() * 9)[number % 7 : number % 7 + length])
            context = f"{before} . the {animal} {place} . it was not good ."
            has_answer = version == "1.1" or number % 3 > 0
            asked = animal if has_answer else "she"
            given = [
                {
                    "text": place,
                    "answer_start": context.index(f" {animal} {place} .") + len(animal) + 2,
                }
            ]
            entry = {
                "id": str(number),
                "question": f"where is the {asked} ?",
                "answers": given if has_answer else [],
            }
            if version == "2.0":
                entry |= {"is_impossible": not has_answer} | (
                    {} if has_answer else {"plausible_answers": given}
                )
            paragraphs.append({"context": context, "qas": [entry]})
        folder.mkdir(parents=True, exist_ok=True)
        body = {"version": version, "data": [{"title": "animals", "paragraphs": paragraphs}]}
        (folder / f"{split}-v{version}.json").write_text(json.dumps(body))
    return folder
