"""What a method may ask for before its student is built: the protocol, and the artefacts that several methods ask for."""

from methods.artefacts.computed import ComputedArtefact, EnsembleTargets
from methods.artefacts.encoders import GivenEncoder, TeacherWeights, TruncatedTeacher, given_tensors
from methods.artefacts.pretraining import GeneralDistillation, PretrainingStage
from methods.artefacts.protocol import (
    BASE,
    CHECKPOINT,
    CORPUS,
    EVALUATION,
    FINE_TUNED,
    OBSERVED_TOKENS,
    TRAIN,
    Artefact,
    Given,
    Identity,
    Source,
    Training,
    artefact_name,
    is_of_task,
    sources,
)

__all__ = [
    "BASE",
    "CHECKPOINT",
    "CORPUS",
    "EVALUATION",
    "FINE_TUNED",
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
    "given_tensors",
    "is_of_task",
    "sources",
]
