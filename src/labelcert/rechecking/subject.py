"""Who predicts what, as a question about rechecking needs it: from arrays, or from a certificate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import GivenFeatures, GivenKernel, GivenRows, Names, Parts, Run, Task, solve, support
from labelcert.certification.reductions import margins_of, posed, reduced, unfinished
from labelcert.engines.base import Question
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.partition.engine import PartEngine
from labelcert.engines.registry import AUTO
from labelcert.engines.row_blocks import ReadRows, positions_among
from labelcert.errors import InvalidInput
from labelcert.losses import LINEAR
from labelcert.prediction import predictor_for
from labelcert.prediction.by_features import ByFeatures
from labelcert.prediction.unknown import Unknown
from labelcert.problem import Problem, Threat
from labelcert.problem.owners import OwnerAdversary
from labelcert.problem.rows import OffsetRows, Rows
from labelcert.rechecking.gains import Block
from labelcert.stopping import Stopped


@dataclass(frozen=True, eq=False)
class Subject:
    """A kernel machine, an ensemble of some, a linear map, or a linear model by its features.

    Its predictions have to survive wrong labels.

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
    def of_rows(cls, H: object, labels: npt.ArrayLike, threat: Threat | None, names: Names, **model: Any) -> Subject:
        """A linear map of the labels, whose rows can be read more than once."""
        found = cls(Task(GivenRows(H, **model), labels, threat=threat, max_flips=0, names=names))
        if found.rows is not None and found.rows.n is None:
            raise InvalidInput("recheck reads the rows of H more than once: give them as an array or a sparse matrix")
        return found

    @classmethod
    def of(cls, cert: Certificate, H: object = None, features: tuple[Any, Any] | None = None) -> Subject:
        """What a certificate is about, from the kernels that it holds, or rows or features beside it."""
        if cert.run.loss == LINEAR:
            return cls._of_map(cert, H)
        if cert.part_votes is not None:
            support.require(support.Request(predictor=support.UNKNOWN, loss=None, asks=support.RECHECK))
        if H is not None:
            raise InvalidInput("H is for certificates of linear maps; this one holds its kernels, or none")
        if features is not None:
            return cls._of_features(cert, *features)
        if cert.K_train is None or cert.K_test is None:
            raise InvalidInput(
                "the certificate does not hold its kernels; save it with save(path, problem=True), or give the arrays "
                "(of a linear model by its features, recheck(cert, X_train=..., X_test=..., ...))"
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

    @classmethod
    def _of_map(cls, cert: Certificate, H: object) -> Subject:
        """What a certificate of a linear map is about."""
        if H is None:
            raise InvalidInput(
                "a certificate does not hold the rows of a linear map: give them again, recheck(cert, H=H, ...)"
            )
        names = Names(test=cert.test_names, labels=cert.label_names, class_list=cert.class_list, model=cert.run.model)
        threat = Threat.from_plain(cert.run.threat, cert.labels, cert.classes)
        found = cls.of_rows(H, cert.labels, threat, names, drops=bool(cert.run.drops_to)).within(cert.max_flips)
        if found.digest() != cert.run.problem_sha256:
            raise InvalidInput(
                "H is not what the certificate is about, or the threat cannot be read back; give H, labels and threat"
            )
        return found

    @classmethod
    def _of_features(cls, cert: Certificate, X: Any, T: Any) -> Subject:
        """What a certificate of a linear model is about, from the features that the model was trained on."""
        if cert.run.weights:
            raise InvalidInput(
                "a certificate does not hold the weights of labels: ask the estimator, from_sklearn(...).recheck(...)"
            )
        task = Task(
            GivenFeatures(X, T, cert.run.C, cert.run.loss, drops_to=cert.run.drops_to),
            cert.labels,
            threat=Threat.from_plain(cert.run.threat, cert.labels, cert.classes),
            max_flips=cert.max_flips,
            names=Names(cert.test_names, cert.label_names, class_list=cert.class_list, model=cert.run.model),
        )
        found = cls(task)
        if found.digest() != cert.run.problem_sha256:
            raise InvalidInput(
                "X_train and X_test are not what the certificate is about, or its threat cannot be read back; give "
                "them as the model sees them, with the constant feature of a regularised intercept"
            )
        return found

    @property
    def rows(self) -> Rows | OffsetRows | None:
        """Those of a linear map."""
        by = self.problem.by
        return by.rows if isinstance(by, ReadRows) else None

    @property
    def n(self) -> int:
        """How many test nodes there are."""
        return self.problem.n_test if self.rows is None else int(self.rows.n or 0)

    def blocks(self) -> Iterator[Block]:
        """All test nodes, some at a time where a linear map has many rows."""
        if self.rows is None:
            question = self.question()
            yield Block(0, question, np.arange(question.problem.adversary.labels.size))
            return
        problem, first = reduced(self.task)[0].posed, 0
        for rows, columns in cast(ReadRows, problem.by).rows:
            part = replace(problem, by=None).with_rows(rows, columns)
            yield Block(first, Question.ask(predictor_for(part, linear=True)), positions_among(problem, columns))
            first += rows.shape[0]

    def digest(self) -> str:
        """The hash by which a certificate names its problem."""
        if self.rows is not None and not isinstance(self.problem.adversary, OwnerAdversary):
            found = hashlib.sha256(b"linear")
            for block in self.rows:
                block.update(found, self.problem.m)
            return replace(self.problem, by=None, K_test=np.zeros((self.n, 0))).finish_digest(found)
        return reduced(replace(self.task, margin=0.0))[0].posed.digest()

    def within(self, budget: int) -> Subject:
        """The same with another largest budget."""
        return Subject(replace(self.task, max_flips=budget))

    def request(self, place: str) -> support.Request:
        """What the table of combinations is asked."""
        parts, problem = self.task.parts, self.problem
        if self.rows is not None:
            return support.Request(
                predictor=support.MAP,
                loss=None,
                classes=problem.n_classes,
                labels=problem.m,
                threat=support.kinds_of(problem.threat),
                asks=support.RECHECK,
                place=place,
            )
        single = support.FEATURES if isinstance(problem.by, ByFeatures) else support.MACHINE
        kind = single if parts is None else support.VOTES if parts.combine == "votes" else support.MEAN
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
        """Clean predictions, and a predictor that says what changes them; one that knows nothing once time is over."""
        simple = reduced(self.task)[0]
        try:
            return self._asked_about(simple)
        except Stopped:
            return Question.ask(Unknown(simple.posed))

    def _asked_about(self, simple: Task) -> Question:
        problem = simple.posed
        if unfinished(simple):
            raise Stopped
        if isinstance(problem.by, ReadRows):
            blocks = problem.by.rows
            dense = np.concatenate([_dense(rows, columns, problem) for rows, columns in blocks])
            predictor = predictor_for(replace(problem, by=None).with_rows(dense), linear=True)
        else:
            predictor = predictor_for(problem, linear=problem.by is None and problem.is_linear(strict=True))
        if simple.predicted is not None:
            predictor = predictor.with_predictions(simple.predicted)
        return Question.ask(predictor)

    def certify(
        self, trusted: npt.ArrayLike, honest: Sequence[str] = (), *, collective: bool, **how: Any
    ) -> Certificate:
        """The certificate with some more labels that cannot be changed, and annotators who are honest."""
        problem, task = self.problem, self.task
        mask = np.zeros(problem.m, dtype=bool) if problem.threat.trusted is None else np.array(problem.threat.trusted)
        mask[np.asarray(trusted, dtype=np.int64)] = True
        names = task.names
        if task.parts is not None:
            names = replace(names, model=task.parts.described(names.model))
        threat = replace(problem.threat, trusted=mask)
        if honest:
            ballots = cast(OwnerAdversary, problem.adversary).ballots
            more = [who for who in ballots.annotators if str(who) in honest]
            threat = replace(threat, trusted_annotators=[*(threat.trusted_annotators or ()), *more])
        confirmed = replace(task, threat=threat, collective=collective, names=names)
        engine = ClosedForm.name if self.rows is not None else AUTO if task.parts is None else PartEngine.name
        return solve(confirmed, Run(engine, **how))


def _dense(rows: Float, columns: Int | None, problem: Problem) -> Float:
    """Rows with all of their columns, those of offsets among them."""
    if columns is None:
        return rows
    whole = np.zeros((rows.shape[0], problem.m))
    whole[:, columns] = rows
    return whole
