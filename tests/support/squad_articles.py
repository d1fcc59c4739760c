"""Questions for tests and trials: tiny ones, and the development data of SQuAD v1.1 cut by article into two parts of our own."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = [
    "the",
    "cat",
    "sleeps",
    "in",
    "the",
    "red",
    "house",
    "the",
    "dog",
    "runs",
    "to",
    "the",
    "old",
    "tree",
    "a",
    "bird",
    "sings",
    "on",
    "the",
    "big",
    "river",
]


def write_tiny(folder: Path, questions: int = 24, version: str = "1.1", length: int = 18) -> Path:
    """The official JSON files of questions like "where is the cat ?", answered by the two words behind the animal's."""
    animals = ["cat", "dog", "bird", "fish"]
    for split, shift in (("train", 0), ("dev", 1)):
        paragraphs = []
        for number in range(questions):
            animal, place = animals[number % 4], ["red house", "old tree", "big river"][(number // 4 + shift) % 3]
            before = " ".join((WORDS * 9)[number % 7 : number % 7 + length])
            context = f"{before} . the {animal} {place} . it was not good ."
            has_answer = version == "1.1" or number % 3 > 0
            asked = animal if has_answer else "she"
            given = [{"text": place, "answer_start": context.index(f" {animal} {place} .") + len(animal) + 2}]
            entry = {"id": str(number), "question": f"where is the {asked} ?", "answers": given if has_answer else []}
            if version == "2.0":
                entry |= {"is_impossible": not has_answer} | ({} if has_answer else {"plausible_answers": given})
            paragraphs.append({"context": context, "qas": [entry]})
        folder.mkdir(parents=True, exist_ok=True)
        body = {"version": version, "data": [{"title": "animals", "paragraphs": paragraphs}]}
        (folder / f"{split}-v{version}.json").write_text(json.dumps(body))
    return folder


def cut_by_article(source: Path, folder: Path, every: int = 6) -> Path:
    """Write a folder whose ``validation`` are the questions on every sixth article of a parquet file, and whose ``train`` are the
    others'. Neither is one of SQuAD's sets."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(source)
    titles = table["title"].to_pylist()
    order = {title: place for place, title in enumerate(dict.fromkeys(titles))}
    is_validation = [order[title] % every == every - 1 for title in titles]
    for name, mask in (("train", [not part for part in is_validation]), ("validation", is_validation)):
        file = folder / "squad" / f"{name}-00000-of-00001.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(table.filter(pyarrow.array(mask)), file)
    return folder


if __name__ == "__main__":
    import sys

    print(cut_by_article(Path(sys.argv[1]), Path(sys.argv[2])))
