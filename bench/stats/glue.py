"""How many examples the development sets of GLUE and SQuAD have."""

from __future__ import annotations

from collections.abc import Mapping

DEVELOPMENT_EXAMPLES: Mapping[tuple[str, str], int] = {
    ("cola", "validation"): 1043,
    ("sst2", "validation"): 872,
    ("mrpc", "validation"): 408,
    ("stsb", "validation"): 1500,
    ("qqp", "validation"): 40430,
    ("mnli", "matched"): 9815,
    ("mnli", "mismatched"): 9832,
    ("qnli", "validation"): 5463,
    ("rte", "validation"): 277,
    ("wnli", "validation"): 71,
    ("squad", "validation"): 10570,
    ("squad_v2", "validation"): 11873,
}
"""(task, evaluation set) -> number of examples."""


def development_examples(task: str) -> int:
    """Of a task's development set; of mnli the matched one."""
    return DEVELOPMENT_EXAMPLES[task, "matched" if task == "mnli" else "validation"]
