"""Who predicts what, as a question about rechecking needs it: from arrays, or from a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.certificate import Certificate
from labelcert.certification import GivenKernel, Names, Parts, Run, Task, solve, support
from labelcert.certification.reductions import margins_of, posed, reduced
from labelcert.engines.base import Question
from labelcert.engines.partition.engine import PartEngine
from labelcert.engines.registry import AUTO
from labelcert.errors import InvalidInput
from labelcert.losses import LINEAR
from labelcert.prediction import predictor_for
from labelcert.problem import Problem, Threat


@dataclass(frozen=True, eq=False)
class Subject:
    """A kernel machine, or an ensemble of some on parts of the labels, whose predictions have to survive wrong labels.

    Attributes
    ----------
    task : Task
        With arrays, as somebody gave them.
    """

    task: Task

    @cached_property
    def problem(self) -> Problem:
        """The arrays, validated; the kernel is not settled yet, since an ensemble settles those of its parts."""
        return posed(self.task).posed

    @classmethod
    def of(cls, cert: Certificate) -> Subject:
        """What a certificate is about, from the kernels that it holds."""
        if cert.run.loss == LINEAR:
            support.require(support.Request(predictor=support.MAP, loss=None, asks=support.RECHECK))
        if cert.K_train is None or cert.K_test is None:
            raise InvalidInput(
                "the certificate does not hold its kernels; save it with save(path, problem=True), or give the arrays"
            )
        stage = cert.run.stages[0].statistics if cert.run.stages else {}
        _, _, model = cert.run.model.partition(": ")
        names = Names(
            test=cert.test_names,
            labels=cert.label_names,
            class_list=cert.class_list,
            model=model if "part_of" in stage else cert.run.model,
            around=cert.around,
        )
        found = None
        try:
            parts = None
            if "part_of" in stage:
                parts = Parts(np.array(stage["part_of"], dtype=np.int64), combine=stage.get("combine", "mean"))
            task = Task(
                GivenKernel(cert.K_train, cert.K_test, cert.run.C, cert.run.loss, drops_to=cert.run.drops_to),
                cert.labels,
                threat=Threat.from_plain(cert.run.threat, cert.labels, cert.classes),
                max_flips=cert.max_flips,
                margin=np.broadcast_to(np.asarray(cert.run.margin, dtype=np.float64), cert.n_test),
                parts=parts,
                names=names,
            )
            found = cls(task)
            known = found.digest() == cert.run.problem_sha256
        except (KeyError, InvalidInput):
            known = False
        if found is None or not known:
            raise InvalidInput(
                "the certificate is not one of certify or certify_partition (but of a baseline, or of given "
                "predictions), or its threat cannot be read back; give the arrays and the threat"
            )
        return found

    def digest(self) -> str:
        """The hash by which a certificate names its problem."""
        return reduced(replace(self.task, margin=0.0))[0].posed.digest()

    def within(self, budget: int) -> Subject:
        """The same with another largest budget."""
        return Subject(replace(self.task, max_flips=budget))

    def request(self, place: str) -> support.Request:
        """What the table of combinations is asked."""
        parts, problem = self.task.parts, self.problem
        kind = support.MACHINE if parts is None else support.VOTES if parts.combine == "votes" else support.MEAN
        return support.Request(
            predictor=kind,
            loss=problem.loss,
            classes=problem.n_classes,
            labels=problem.m,
            threat=support.kinds_of(problem.threat),
            margin=bool(margins_of(posed(self.task))[0].any()),
            asks=support.RECHECK,
            place=place,
        )

    def question(self) -> Question:
        """Clean predictions, and a predictor that says what changes them."""
        simple = reduced(self.task)[0]
        problem = simple.posed
        if problem.by is not None:
            predictor = PartEngine().predictor(problem)
        else:
            predictor = predictor_for(problem, linear=problem.is_linear(strict=True))
        if simple.predicted is not None:
            predictor = predictor.with_predictions(simple.predicted)
        return Question.ask(predictor)

    def certify(self, trusted: npt.ArrayLike, *, collective: bool, **how: Any) -> Certificate:
        """The certificate with some more labels that cannot be changed."""
        problem, task = self.problem, self.task
        mask = np.zeros(problem.m, dtype=bool) if problem.threat.trusted is None else np.array(problem.threat.trusted)
        mask[np.asarray(trusted, dtype=np.int64)] = True
        names = task.names
        if task.parts is not None:
            names = replace(names, model=task.parts.described(names.model))
        confirmed = replace(task, threat=replace(problem.threat, trusted=mask), collective=collective, names=names)
        return solve(confirmed, Run(AUTO if task.parts is None else PartEngine.name, **how))
