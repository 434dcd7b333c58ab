"""Who predicts what, as a question about rechecking needs it: from arrays, or from a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import Names, certify, certify_partition, support
from labelcert.certification.partition import check_parts, divide, partition_digest
from labelcert.engines.base import Question
from labelcert.engines.partition.ensemble import COMBINATIONS
from labelcert.errors import InvalidInput
from labelcert.losses import LINEAR
from labelcert.prediction import predictor_for
from labelcert.problem import Problem, Threat
from labelcert.problem.margin import lowered


@dataclass(frozen=True, eq=False)
class Subject:
    """A kernel machine, or an ensemble of some on parts of the labels, whose predictions have to survive wrong labels.

    Attributes
    ----------
    problem : Problem
        Its kernel is not settled yet, since an ensemble settles those of its parts.
    margins : (n,) array
    parts : int, (m,) array or None
        How many parts, or the part of each label; None: one model for all labels.
    seed : int
        Of the hash that deals out labels to parts.
    combine : str
    names : Names
    """

    problem: Problem
    margins: Float
    parts: npt.ArrayLike | None = None
    seed: int = 0
    combine: str = "mean"
    names: Names = Names()  # noqa: RUF009 (frozen, and empty)

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
            threat = Threat.from_plain(cert.run.threat, cert.labels, cert.classes)
            arrays = (cert.K_train, cert.labels, cert.K_test, cert.run.C)
            problem = Problem.unsettled(*arrays, threat=threat, max_flips=cert.max_flips, loss=cert.run.loss)
            margins = np.broadcast_to(np.asarray(cert.run.margin, dtype=np.float64), problem.n_test)
            parts = np.array(stage["part_of"], dtype=np.int64) if "part_of" in stage else None
            found = cls(problem, margins, parts, combine=stage.get("combine", "mean"), names=names)
        except (KeyError, InvalidInput):
            pass
        if found is None or found.digest() != cert.run.problem_sha256:
            raise InvalidInput(
                "the certificate is not one of certify or certify_partition (but of a baseline, or of given "
                "predictions), or its threat cannot be read back; give the arrays and the threat"
            )
        return found

    def digest(self) -> str:
        """The hash by which a certificate names its problem."""
        if self.parts is None:
            return self.problem.settled().digest()
        part_of = self._part_of()
        return partition_digest(divide(self.problem, part_of)[0], part_of, self.combine)

    def within(self, budget: int) -> Subject:
        """The same with another largest budget."""
        p = self.problem
        arrays = (p.K_train, p.labels, p.K_test, p.C)
        return replace(self, problem=Problem.unsettled(*arrays, threat=p.threat, max_flips=budget, loss=p.loss))

    def request(self, place: str) -> support.Request:
        """What the table of combinations is asked."""
        kind = support.MACHINE if self.parts is None else support.VOTES if self.combine == "votes" else support.MEAN
        return support.Request(
            predictor=kind,
            loss=self.problem.loss,
            classes=self.problem.n_classes,
            labels=self.problem.m,
            threat=support.kinds_of(self.problem.threat),
            margin=bool(self.margins.any()),
            asks=support.RECHECK,
            place=place,
        )

    def question(self) -> Question:
        """Clean predictions, and a predictor that says what changes them."""
        if self.parts is not None:
            problem, parts = divide(self.problem, self._part_of())
            return Question.ask(COMBINATIONS[self.combine](problem, parts, self.margins))
        problem = self.problem.settled()
        clean = predictor_for(problem, linear=problem.is_linear(strict=True))
        if not self.margins.any():
            return Question.ask(clean)
        problem = lowered(problem, clean.shown, self.margins)
        return Question.ask(
            predictor_for(problem, linear=problem.is_linear(strict=True)).with_predictions(clean.predicted)
        )

    def certify(self, trusted: npt.ArrayLike, **how: Any) -> Certificate:
        """The certificate with some more labels that cannot be changed."""
        problem = self.problem
        mask = np.zeros(problem.m, dtype=bool) if problem.threat.trusted is None else np.array(problem.threat.trusted)
        mask[np.asarray(trusted, dtype=np.int64)] = True
        asked = {
            "threat": replace(problem.threat, trusted=mask),
            "max_flips": problem.max_flips,
            "loss": problem.loss,
            "margin": self.margins,
            "names": self.names,
            **how,
        }
        arrays = (problem.K_train, problem.labels, problem.K_test, problem.C)
        if self.parts is None:
            return certify(*arrays, **asked)
        return certify_partition(*arrays, parts=self.parts, seed=self.seed, combine=self.combine, **asked)

    def _part_of(self) -> Int:
        assert self.parts is not None
        return check_parts(self.problem, self.parts, self.seed, self.names)
