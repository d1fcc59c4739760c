"""A method as a third party would write it: the teacher's logits by squared error (Ba and Caruana 2014), one file."""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F

from methods.api import Stage, Student, Term
from methods.parts import OwnShape
from methods.taps import LOGITS


@dataclass(frozen=True, kw_only=True)
class TeacherLogits(OwnShape):
    name: ClassVar = "teacherlogits"
    version: ClassVar = 1
    terms: ClassVar = ("logits",)
    needs_teacher: ClassVar = True

    def build(self, setup):
        return Student(self.student_model(setup))

    def stages(self, setup):
        both = LOGITS
        term = Term(lambda batch, student, teacher, aux: F.mse_loss(student.logits, teacher.logits), 1.0, both, both)
        return [Stage("distil", {"logits": term})]
