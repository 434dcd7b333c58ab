"""Whatever an engine says, nothing gets into a certificate that retraining refutes or the threat forbids."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains
from tests.helpers.problems import hand_made

from labelcert import Certificate, Threat, certify
from labelcert.engines.base import Capabilities, Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.final_check import check
from labelcert.engines.registry import ENGINES, get_engine, register
from labelcert.examples import Example, several_clouds, two_clouds
from labelcert.prediction import OneVsRest, Predictor, Sign
from labelcert.problem import NOTHING, Adversary, Problem, Relabelling

M, N, FLIPS = 9, 20, 3


def arrays(example: Example) -> tuple[Any, Any, Any, float]:
    """Arguments of :func:`labelcert.certify`, with the classes as numbers."""
    return example.K_train, np.unique(example.labels, return_inverse=True)[1], example.K_test, example.C


PROBLEMS = {
    "two classes": arrays(two_clouds(n_labels=M, n_test=N)),
    "more": arrays(several_clouds(n_labels=M, n_test=N, seed=1)),
}
BOTH = pytest.mark.parametrize("classes", PROBLEMS)

Spoil = Callable[[Question, Findings], Findings]
Widen = Callable[[Problem], Adversary]


NOTHING_SPECIAL = Capabilities()


@dataclass(frozen=True)
class Mutant:
    """Enumeration that may do more than the threat allows, and whose findings are spoilt before they are handed in."""

    widen: Widen = lambda problem: problem.adversary
    spoil: Spoil = lambda question, found: found
    name: str = "mutant"
    capabilities: Capabilities = NOTHING_SPECIAL

    def refuses(self, problem: Problem) -> str | None:
        return None

    def predictor(self, problem: Problem) -> Predictor:
        return Enumerate().predictor(problem)

    def estimate(self, question: Question, control: Control) -> Work:
        return Work("nothing is too much")

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        return question.budget

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        wider = replace(question.problem, adversary=self.widen(question.problem))
        return self.spoil(question, Enumerate().run(replace(question, problem=wider), control, known))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mutant], None]:
    """Register an engine for one test."""

    def add(engine: Mutant) -> None:
        monkeypatch.setitem(ENGINES, engine.name, engine)
        register(engine)
        assert get_engine(engine.name) is engine

    return add


def without_group_budgets(problem: Problem) -> Adversary:
    return replace(problem.adversary, group_caps=problem.adversary.group_caps + 100)


def with_all_targets(problem: Problem) -> Adversary:
    a = problem.adversary
    return replace(a, targets=problem.codes[a.labels][:, None] != np.arange(problem.n_classes)[None, :])


def with_all_labels(problem: Problem) -> Adversary:
    """Its positions are indices of labels, trusted ones among them: a plausible mistake."""
    return Threat().resolve(problem.labels, problem.classes)


def radii_too_cheap(question: Question, found: Findings) -> Findings:
    """Attacks of two flips and more, at the price of one."""
    known = found.radius_upper <= question.budget
    return replace(found, radius_upper=np.where(known, 1, found.radius_upper), radius_lower=np.ones_like(known, int))


def curve_too_cheap(question: Question, found: Findings) -> Findings:
    """The attack of the largest budget at every budget."""
    most = np.full_like(found.curve_lower, found.curve_lower[-1])
    most[0] = 0
    changes = [NOTHING, *[found.curve_changes[-1]] * question.budget]
    return replace(found, curve_lower=most, curve_upper=np.full_like(most, N), curve_changes=changes)


def changes_that_are_none(question: Question, found: Findings) -> Findings:
    """Single flips that leave the score on the right side."""
    a = question.problem.adversary
    flips = [Relabelling.of({i: int(k)}) for i in range(a.labels.size) for k in np.flatnonzero(a.targets[i])]
    unchanged = np.array([question.changed(flip)[1] for flip in flips])
    assert unchanged.any(axis=0).all()
    return replace(
        found,
        radius_lower=np.ones_like(found.radius_lower),
        radius_upper=np.ones_like(found.radius_upper),
        radius_changes=[flips[int(row)] for row in unchanged.argmax(axis=0)],
    )


def curve_attacks_that_change_too_few(question: Question, found: Findings) -> Findings:
    lower = np.where(np.arange(found.curve_lower.size) > 0, N, 0)
    return replace(found, curve_lower=lower, curve_upper=np.full_like(lower, N))


def radii_too_high(question: Question, found: Findings) -> Findings:
    return replace(found, radius_lower=np.full_like(found.radius_lower, question.budget + 1))


def radii_too_high_and_no_curve(question: Question, found: Findings) -> Findings:
    """Nothing but the radii contradicts the curve that follows from these radii."""
    return replace(
        found,
        radius_lower=np.full_like(found.radius_lower, question.budget + 1),
        curve_lower=np.zeros_like(found.curve_lower),
        curve_upper=np.full_like(found.curve_upper, N),
        curve_changes=[NOTHING] * (question.budget + 1),
    )


def radii_too_high_and_no_witnesses(question: Question, found: Findings) -> Findings:
    """Nothing but the attacks of the curve contradicts these radii."""
    n = found.radius_lower.size
    never = np.full(n, question.problem.adversary.never)
    return replace(radii_too_high(question, found), radius_upper=never, radius_changes=[None] * n)


def curve_too_low_and_no_attacks(question: Question, found: Findings) -> Findings:
    """Nothing but the radii contradicts this curve."""
    nothing = np.zeros_like(found.curve_lower)
    return replace(found, curve_lower=nothing, curve_upper=nothing, curve_changes=[NOTHING] * (question.budget + 1))


def curve_too_low(question: Question, found: Findings) -> Findings:
    return replace(found, curve_upper=np.zeros_like(found.curve_upper))


def labels_that_do_not_exist(question: Question, found: Findings) -> Findings:
    nobody = Relabelling.of({question.problem.adversary.labels.size: 0})
    return _all_by(nobody, found)


def classes_that_do_not_exist(question: Question, found: Findings) -> Findings:
    """Negative positions and classes would wrap around to the last ones."""
    a, own = question.problem.adversary, question.problem.codes
    first = next(i for i in range(a.labels.size) if own[a.labels[i]] != question.problem.n_classes - 1)
    return _all_by(Relabelling.of({first: -1}), found)


def labels_counted_from_the_end(question: Question, found: Findings) -> Findings:
    a = question.problem.adversary
    return _all_by(Relabelling.of({-1: int(a.targets[-1].argmax())}), found)


def _all_by(change: Relabelling, found: Findings) -> Findings:
    lower = np.where(np.arange(found.curve_lower.size) > 0, 1, 0)
    return replace(
        found,
        radius_lower=np.ones_like(found.radius_lower),
        radius_upper=np.ones_like(found.radius_upper),
        radius_changes=[change] * found.radius_lower.size,
        curve_lower=lower,
        curve_upper=np.full_like(lower, N),
        curve_changes=[NOTHING, *[change] * (lower.size - 1)],
    )


GROUPS = Threat(groups=["ann"] * M, group_budgets=1)
ONE_WAY = Threat(allowed_flips={0: [1]})
TRUSTED = Threat(trusted=np.arange(M) < 2)
COSTS = Threat(costs=np.arange(M) % 2 + 1)

MUTANTS = {
    "group budgets are ignored": (GROUPS, Mutant(without_group_budgets)),
    "allowed targets are ignored": (ONE_WAY, Mutant(with_all_labels)),
    "trusted labels are ignored": (TRUSTED, Mutant(with_all_labels)),
    "the budget is ignored for radii": (Threat(), Mutant(spoil=radii_too_cheap)),
    "the budget is ignored for the curve": (Threat(), Mutant(spoil=curve_too_cheap)),
    "costs are ignored for the curve": (COSTS, Mutant(spoil=curve_too_cheap)),
    "the score is on the right side": (Threat(), Mutant(spoil=changes_that_are_none)),
    "a curve attack changes too few": (Threat(), Mutant(spoil=curve_attacks_that_change_too_few)),
    "radii are too high": (Threat(), Mutant(spoil=radii_too_high)),
    "radii are too high, and so is the curve from them": (Threat(), Mutant(spoil=radii_too_high_and_no_curve)),
    "the curve is too low": (Threat(), Mutant(spoil=curve_too_low)),
    "the curve is too low, and has no attacks": (Threat(), Mutant(spoil=curve_too_low_and_no_attacks)),
    "a label does not exist": (Threat(), Mutant(spoil=labels_that_do_not_exist)),
    "a label counts from the end": (Threat(), Mutant(spoil=labels_counted_from_the_end)),
    "a class does not exist": (Threat(), Mutant(spoil=classes_that_do_not_exist)),
}


def admitted(problem: Problem, witness: dict[int, Any], budget: int) -> bool:
    a, classes = problem.adversary, problem.classes.tolist()
    positions = {int(i): k for k, i in enumerate(a.labels)}
    if not set(witness) <= set(positions):
        return False
    return a.admits(Relabelling.of({positions[i]: classes.index(c) for i, c in witness.items()}), budget)


def only_true_claims(cert: Certificate, truth: Certificate, problem: Problem) -> None:
    """Intervals hold the truth; every witness is admissible within its budget, and does what it should."""
    contains(cert, truth)
    predictor = Enumerate().predictor(problem)
    nodes = np.arange(cert.n_test)

    def changed(witness: dict[int, Any]) -> Any:
        codes = problem.codes.copy()
        for i, label in witness.items():
            codes[i] = problem.classes.tolist().index(label)
        return predictor.changed(codes, nodes)[0]

    for t in range(cert.n_test):
        witness = cert.witness(t)
        if witness is not None:
            assert admitted(problem, witness, int(cert.radius_upper[t]))
            assert changed(witness)[t]
    for b in range(cert.max_flips + 1):
        assert admitted(problem, cert.collective_witness(b), b)
        assert changed(cert.collective_witness(b)).sum() >= cert.collective_lower[b]
        assert not np.any(cert.collective_changed(b) & ~changed(cert.collective_witness(b)))


@BOTH
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_out(classes: str, mutant: str, registered: Callable[[Mutant], None]) -> None:
    threat, engine = MUTANTS[mutant]
    asked = {"threat": threat, "max_flips": FLIPS}
    registered(engine)
    truth = certify(*PROBLEMS[classes], engine="enumerate", **asked)
    assert truth.exact
    assert np.any(truth.radius_upper == 1)
    with pytest.warns(RuntimeWarning, match="contradict retraining and were dropped"):
        cert = certify(*PROBLEMS[classes], engine="mutant", **asked)
    assert not cert.exact
    assert cert.state == "intervals (finished)"
    only_true_claims(cert, truth, Problem.build(*PROBLEMS[classes], **asked))


@BOTH
def test_radii_that_attacks_of_the_curve_refute(classes: str, registered: Callable[[Mutant], None]) -> None:
    """A proof that nothing contradicts cannot be found out; one that any witness contradicts goes."""
    registered(Mutant(spoil=radii_too_high_and_no_witnesses))
    truth = certify(*PROBLEMS[classes], max_flips=FLIPS, engine="enumerate")
    with pytest.warns(RuntimeWarning, match="contradict retraining"):
        cert = certify(*PROBLEMS[classes], max_flips=FLIPS, engine="mutant")
    shown = np.any([truth.collective_changed(b) for b in range(FLIPS + 1)], axis=0)
    assert 0 < shown.sum() < N
    assert np.all(cert.radius_lower[shown] == 0)
    assert np.array_equal(cert.collective_lower, truth.collective_lower)
    assert np.all(cert.collective_upper >= truth.collective_upper)
    assert not cert.exact


def test_targets_alone_are_checked(registered: Callable[[Mutant], None]) -> None:
    """More than two classes: the right labels, but classes that they may not become."""
    registered(Mutant(with_all_targets))
    asked = {"threat": Threat(allowed_targets=[[1], [1, 2], [2], [0]] * 2 + [[0]]), "max_flips": FLIPS}
    truth = certify(*PROBLEMS["more"], engine="enumerate", **asked)
    with pytest.warns(RuntimeWarning, match="contradict retraining"):
        cert = certify(*PROBLEMS["more"], engine="mutant", **asked)
    assert not cert.exact
    only_true_claims(cert, truth, Problem.build(*PROBLEMS["more"], **asked))


def claiming_too_much(question: Question, found: Findings) -> Findings:
    """Radii of 1 alone are proved; a solver claims more about all nodes, and is wrong about some."""
    return replace(
        found,
        radius_lower=np.ones_like(found.radius_lower),
        curve_upper=Findings.nothing(question).curve_upper,
        radius_claimed=np.full_like(found.radius_lower, question.budget + 1),
        curve_claimed=found.curve_lower,
    )


@BOTH
@pytest.mark.parametrize("trust", [False, True])
def test_one_refuted_claim_takes_all_claims_with_it(
    classes: str, trust: bool, registered: Callable[[Mutant], None]
) -> None:
    registered(Mutant(spoil=claiming_too_much))
    truth = certify(*PROBLEMS[classes], max_flips=FLIPS, engine="enumerate")
    with pytest.warns(RuntimeWarning, match="contradict retraining"):
        cert = certify(*PROBLEMS[classes], max_flips=FLIPS, engine="mutant", trust_solver=trust)
    contains(cert, truth)
    assert np.all(cert.radius_lower == 1)
    assert np.array_equal(cert.radius_claimed, cert.radius_lower)
    assert np.array_equal(cert.collective_claimed, cert.collective_upper)
    assert not cert.trusts_solver


@BOTH
def test_a_mutant_without_a_mutation_is_kept(classes: str, registered: Callable[[Mutant], None]) -> None:
    registered(Mutant())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cert = certify(*PROBLEMS[classes], max_flips=FLIPS, engine="mutant")
    assert cert.exact
    assert set(cert.radius_proved_by.tolist()) == {"mutant"}


def test_the_registry_is_as_before() -> None:
    assert "mutant" not in ENGINES


@dataclass(frozen=True, eq=False)
class Blurred(Question):
    """Trained from another start, the scores of its first nodes are too close to tell."""

    def changed(self, change: Relabelling, nodes: Any = None) -> Any:
        clear = (np.arange(self.nodes.size) if nodes is None else nodes) >= N // 2
        return tuple(known & clear for known in super().changed(change, nodes))


@BOTH
def test_what_is_too_close_to_tell_is_dropped_without_a_word(classes: str) -> None:
    question = Blurred.ask(Enumerate().predictor(Problem.build(*PROBLEMS[classes], max_flips=FLIPS)))
    found = Enumerate().run(
        Question(question.problem, question.predictor, question.nodes), Control(workers=1), Findings.nothing(question)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = check(question, found).findings
    first, rest = slice(None, N // 2), slice(N // 2, None)
    assert np.any(found.radius_upper[first] <= FLIPS)
    assert np.all(kept.radius_upper[first] == question.problem.adversary.never)
    assert np.array_equal(kept.radius_upper[rest], found.radius_upper[rest])
    assert np.array_equal(kept.radius_lower, found.radius_lower)
    assert np.array_equal(kept.curve_upper, found.curve_upper)
    assert np.all(kept.curve_lower <= found.curve_lower)
    assert kept.curve_lower[-1] < found.curve_lower[-1]


# After the attack, the two best classes of the node have exactly the same score.
TIES = [
    (hand_made(np.eye(3), [0, 1, 1], [[0.0, 1.0, 1.0]], C=1.0), Relabelling.of({1: 0})),
    (hand_made(np.eye(4), [0, 0, 1, 2], [[1.0, 1.0, 0.0, 0.0]], C=1.0), Relabelling.of({0: 1})),
]


@pytest.mark.parametrize(
    ("case", "change", "kind"),
    [(*TIES[0], Sign), (*TIES[0], OneVsRest), (*TIES[1], OneVsRest)],
    ids=["two classes, one score", "two classes, two scores", "more"],
)
@pytest.mark.parametrize("linear", [True, False])
def test_a_tie_after_poisoning_counts_as_changed(case: Any, change: Relabelling, kind: Any, linear: bool) -> None:
    problem = case.build()
    question = Question.ask(kind(problem, linear=linear))
    assert question.predictor.margins(problem.relabelled(change), question.nodes).tolist() == [0.0]
    assert [v.tolist() for v in question.changed(change)] == [[True], [False]]
    curve = np.array([0, *[1] * question.budget])
    claimed = replace(
        Findings.nothing(question),
        radius_upper=np.array([1]),
        radius_changes=[change],
        curve_lower=curve,
        curve_upper=curve,
        curve_changes=[NOTHING, *[change] * question.budget],
    )
    kept = check(question, claimed).findings
    assert (kept.radius_lower.tolist(), kept.radius_upper.tolist()) == ([1], [1])
    assert kept.curve_lower.tolist() == kept.curve_upper.tolist() == curve.tolist()


@pytest.mark.parametrize(("case", "change"), TIES, ids=["two classes", "more"])
def test_every_engine_knows_that_a_tie_is_a_change(case: Any, change: Relabelling) -> None:
    for name in ("enumerate", "closed-form"):
        cert = case.certify(name)
        assert cert.radius_lower.tolist() == cert.radius_upper.tolist() == [1]
        assert cert.collective_lower.tolist()[:2] == [0, 1]
    assert case.certify("relaxed").radius_lower.tolist() == [1]
