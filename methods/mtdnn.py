"""MT-DNN-KD, Liu et al. 2019 (arXiv 1904.09482): an ensemble of teachers taught to
one model of all tasks.

The paper's: one encoder shared by all tasks, a head for each; the soft targets of a task are the
mean of its teachers' class probabilities, and the loss is the average of the labels' and the soft
targets' cross-entropy (section 3). The student has the teacher's size: what is compressed is the
ensemble, and the speed-up is 1. The authors' code differs: it adds the two losses and compares the
student's *logits* with the given soft labels by squared error; ``loss=code`` does that.
Ours: the ensemble's members are the same checkpoint tuned on one task with different seeds (the
paper: multi-task models with different dropout, each tuned again); heads are linear for every task
(the paper has an answer module of several steps for pairs); epochs visit the tasks' batches in
proportion to their size, as theirs do, every batch of one task; the encoder begins as the un-tuned
teacher. By the common recipe the optimiser is that of every row, with ``--recipe paper`` the
paper's Adamax. Every task has its ensemble here; where the paper's task has none, it learns from
the labels. Dropping a term leaves the other at its weight: "w/o distillation" has the labels at 0.5
(with ``loss=code`` at 1).
RoBERTa, ELECTRA and MPNet have a layer in their heads that is BERT's pooler: each task has its own.
A ModernBERT is taken whole alone (``layers=0``): its layers differ in kind, so that the first of
them are another network.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from methods.api import Batch, Method, Out, Setup, Stage, Student, TaskHead, Term
from methods.core import losses
from methods.core.artefacts import Artefact, EnsembleTargets, TeacherWeights, artefact_name
from methods.core.packed import moved
from methods.core.parts import cut_classifier, for_task, teacher_depth
from methods.core.settings import NOT_NEGATIVE, Count
from methods.core.terms import LOGITS, hard


class HeadOfEachTask(TaskHead):
    """As many heads as tasks. Each is what the family has above its encoder: a linear layer, or one
    after a layer that BERT has as its pooler, in the encoder that all tasks share."""

    def __init__(self, config: PretrainedConfig, tasks: Mapping[str, int], kind: type) -> None:
        super().__init__()
        self.tasks = tuple(tasks)
        heads = []
        for labels in tasks.values():
            of_task = copy.deepcopy(config)
            of_task.num_labels = labels
            plain = kind is nn.Linear
            heads.append(nn.Linear(config.hidden_size, labels) if plain else kind(of_task))
        self.heads = nn.ModuleList(heads)

    def forward(self, pooled_BW: Tensor, task: int) -> Tensor:
        return self.heads[task](pooled_BW)  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class MTDNN(Method):
    name: ClassVar = "mtdnn"
    version: ClassVar = 1
    terms: ClassVar = ("soft", "hard")
    ablations: ClassVar = {"w/o distillation": ":-soft", "one teacher": ":members=1"}
    needs_teacher: ClassVar = True
    multitask: ClassVar = True

    members: Count = 3  # teachers of each task's ensemble
    # the teacher's first so many; 0: all of them, as in the paper
    layers: Annotated[int, NOT_NEGATIVE] = 0
    loss: Literal["paper", "code"] = "paper"

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        if self.layers or teacher.model_type != "modernbert":
            teacher_depth(teacher, self.layers, self.name)
        return (TeacherWeights(tuned=False), EnsembleTargets(self.members))

    def build(self, setup: Setup) -> Student:
        depth = self.layers or setup.teacher.num_hidden_layers
        model: Any = cut_classifier(setup, depth, setup.artefacts["teacher_weights"])
        tasks = dict(zip(setup.tasks, setup.labels_of_tasks, strict=True))
        model.classifier = HeadOfEachTask(model.config, tasks, type(model.classifier))
        return Student(model)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        targets: dict[int, tuple[dict[int, int], Tensor]] = {}

        def of_batch(batch: Batch) -> Tensor:
            """[B, C] the ensemble's answers to these examples."""
            # the targets of a task, looked up once: the row of each example, and the answers
            if batch.task not in targets:
                ensemble = EnsembleTargets(self.members)
                task = setup.tasks[batch.task]
                tensors = setup.artefacts[
                    artefact_name(ensemble, setup.teacher, task, several=True)
                ]
                places = {example: row for row, example in enumerate(tensors["ids"].tolist())}
                targets[batch.task] = places, tensors["targets"]
            places, answers = targets[batch.task]
            answers_BC = answers[torch.tensor([places[example] for example in batch.example_ids])]
            return moved({"answers": answers_BC}, batch.layout.device)["answers"]

        def soft(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            compare = (
                losses.target_cross_entropy_batchmean
                if self.loss == "paper"
                else losses.logits_mse_elementmean
            )
            return compare(student.logits, of_batch(batch))

        weight = 0.5 if self.loss == "paper" else 1.0
        terms = {"soft": Term(soft, weight, LOGITS), "hard": hard(weight)}
        return (
            Stage(
                "distil", terms, paper={"epochs": 5.0, "learning_rate": 5e-5, "optimizer": "adamax"}
            ),
        )

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """A plain classifier for each task; they share the encoder's tensors."""
        each: Any = student.model.classifier
        return {
            task: for_task(student.model, head)
            for task, head in zip(each.tasks, each.heads, strict=True)
        }
