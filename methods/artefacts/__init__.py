"""What a method may ask for before its student is built: the protocol, and the artefacts that several methods ask for."""

from methods.artefacts.computed import ComputedArtefact, EnsembleTargets
from methods.artefacts.encoders import GivenEncoder, TeacherWeights, TruncatedTeacher, given_tensors
from methods.artefacts.pretraining import GeneralDistillation, PretrainingStage
from methods.artefacts.protocol import (
    BASE,
    CORPUS,
    EVALUATION,
    OBSERVED_TOKENS,
    TRAIN,
    Artefact,
    Given,
    Identity,
    Source,
    Training,
    artefact_name,
    checkpoint,
    fine_tuned,
    is_of_task,
    sources,
)

__all__ = [
    "BASE",
    "CORPUS",
    "EVALUATION",
    "OBSERVED_TOKENS",
    "TRAIN",
    "Artefact",
    "ComputedArtefact",
    "EnsembleTargets",
    "GeneralDistillation",
    "Given",
    "GivenEncoder",
    "Identity",
    "PretrainingStage",
    "Source",
    "TeacherWeights",
    "Training",
    "TruncatedTeacher",
    "artefact_name",
    "checkpoint",
    "fine_tuned",
    "given_tensors",
    "is_of_task",
    "sources",
]
