"""The verifier accepts what is right, with every kind of proof, and says how it checked it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.helpers.problems import blobs, gaussian

import labelcert
from labelcert import Certificate, InvalidInput, Threat, certify, verify
from labelcert.certificate.proofs import RivalProof, Step, Tree
from labelcert.engines.search import branching
from labelcert.graphs import karate
from labelcert.models import GCN
from labelcert.selfcheck.cases import nasty_case
from labelcert.selfcheck.comparing import engines_for
from labelcert.verification import CheckStatus
from labelcert.verification.machines import SVMTrainer
from labelcert.verification.statement import Statement
from labelcert.verification.trees import Trees

THREATS = [
    Threat(),
    Threat(costs=np.arange(7) % 3 + 1),
    Threat(groups=["a", "b", None, "a", "b", "a", "b"], group_budgets={"a": 1, "b": 2}),
    Threat(trusted=np.arange(7) < 2),
    Threat(allowed_flips={0: [1]}),
]


def statuses(found: labelcert.Verification) -> dict[str, CheckStatus]:
    return {check.what: check.status for check in found.checks}


@pytest.mark.parametrize("k", [k if k < 30 else pytest.param(k, marks=pytest.mark.long) for k in range(60)])
def test_certificates_of_every_engine_are_accepted(k: int) -> None:
    if k % 10 == 9:
        pytest.skip("larger problems have a test of their own")
    case = nasty_case(np.random.default_rng([11, k]), k, 7)
    for engine in [*engines_for(case), "milp"]:
        cert = case.certify(engine, workers=1)
        found = verify(cert, case.K_train, case.labels, case.K_test)
        assert found.complete, f"{engine}: {found}"


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_stored_trees_prove_what_the_search_proved(
    threat: Threat, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branching, "LEAF_SETS", 3)
    monkeypatch.setattr(branching, "LEAF_RELABELLINGS", 3)
    K, y, rows = gaussian(7, 8, seed=3) if classes == 2 else blobs(7, 8, classes=3, seed=3)
    if classes == 3 and threat.allowed_flips is not None:
        threat = Threat(allowed_flips={0: [1, 2], 1: [2]})
    cert = certify(K, y, rows, 2.0, threat=threat, engine="milp", max_flips=3)
    assert cert.proofs is not None
    assert cert.proofs.nodes or cert.proofs.curve
    statement = Statement.of(cert, None, None, None)
    trees = Trees(
        cert, statement, SVMTrainer(statement), np.searchsorted(cert.classes, cert.predictions), lambda text: None
    )
    radii = trees.proved_radii()
    for t, rivals in cert.proofs.nodes.items():
        if len(rivals) == classes - 1:
            assert radii[t] == min(proof.budget for proof in rivals.values()) + 1
    curve = trees.proved_curve()
    for b in cert.proofs.curve:
        assert curve[b] == cert.collective_upper[b]
    assert verify(cert, K, y, rows).complete


def test_several_engines_have_ways_of_their_own() -> None:
    K, y, rows = gaussian(9, 6, seed=43)
    linear = verify(certify(K, y, rows, 1e-3), K, y, rows)
    assert "by closed form" in str(linear)
    ridge = verify(certify(K, y, rows, 1.0, loss="square"), K, y, rows)
    assert ridge.complete
    walked = verify(certify(K, y, rows, 2.0, engine="enumerate"), K, y, rows)
    assert "a walk through all" in str(walked)
    searched = certify(K, y, rows, 2.0, engine="milp")
    assert verify(searched, K, y, rows).complete


def test_a_kernel_that_is_none_is_rejected() -> None:
    K, y, rows = gaussian(6, 4)
    for C, loss in ((2.0, "hinge"), (1e-3, "hinge"), (1.0, "square")):
        cert = certify(K, y, rows, C, loss=loss)
        indefinite = K.copy()
        indefinite[0, 1] = indefinite[1, 0] = 5.0
        statement = replace(Statement.of(cert, K, y, rows), K_train=indefinite)
        claimed = replace(cert, run=replace(cert.run, problem_sha256=statement.digest()))
        claimed = replace(claimed, checksum=claimed.computed_checksum())
        found = verify(claimed, indefinite, y, rows)
        assert not found.accepted
        assert found.wrong[0].what == "kernel"


def test_many_labels() -> None:
    """A factorisation with proved rounding shows that large kernels are definite; of singular ones, nothing does."""
    K, y, rows = gaussian(300, 2)
    assert verify(certify(K, y, rows, 1e-4, max_flips=1), K, y, rows).complete
    K, y, rows = np.ones((300, 300)), np.arange(300) % 2, np.ones((2, 300))
    cert = certify(K, y, rows, 1e-6, max_flips=1)
    found = verify(replace(cert, run=replace(cert.run, kernel_shift=0.0)), K, y, rows)
    assert cert.run.kernel_shift > 0
    assert found.wrong[0].what == "contents"
    assert verify(cert, K, y, rows).accepted


def test_a_share_is_reported_as_such() -> None:
    K, y, rows = gaussian(9, 6, seed=43)
    cert = certify(K, y, rows, 2.0)
    found = verify(cert, K, y, rows, share=0.2, seed=3)
    assert found.accepted
    assert not found.complete
    assert statuses(found)["radii"] is CheckStatus.SAMPLED
    assert "drawn at random" in str(found)
    assert "not everything is proved" in found.summary
    with pytest.raises(InvalidInput, match="share must be above 0"):
        verify(cert, K, y, rows, share=0.0)


def test_a_time_limit_leaves_the_rest_unchecked() -> None:
    K, y, rows = gaussian(12, 6)
    found = verify(certify(K, y, rows, 2.0), K, y, rows, time_limit=1e-6)
    assert found.accepted
    assert statuses(found)["radii"] is CheckStatus.NOT_CHECKED


def test_ill_conditioned_kernels() -> None:
    for k in (9, 19, 29):
        case = nasty_case(np.random.default_rng([11, k]), k, 7)
        assert verify(case.certify("auto", workers=1), case.K_train, case.labels, case.K_test).complete


def test_intervals_are_accepted() -> None:
    K, y, rows = gaussian(14, 5)
    cert = certify(K, y, rows, 2.0, engine="milp", time_limit=1e-3)
    assert verify(cert, K, y, rows).accepted


def test_one_file_suffices(tmp_path: Path) -> None:
    K, y, rows = gaussian(7, 5)
    cert = certify(K, y, rows, 2.0, engine="milp", max_flips=2)
    cert.save(tmp_path / "alone.cert", problem=True)
    cert.save(tmp_path / "bare.cert")
    assert verify(labelcert.load(tmp_path / "alone.cert")).complete
    bare = labelcert.load(tmp_path / "bare.cert")
    assert bare.K_train is None
    with pytest.raises(InvalidInput, match="does not hold its kernels"):
        verify(bare)
    with pytest.raises(InvalidInput, match="all of K_train, labels and K_test"):
        verify(bare, K, y)
    assert verify(bare, K, y, rows).complete
    with pytest.raises(InvalidInput, match="without its kernels"):
        bare.save(tmp_path / "again.cert", problem=True)


def test_another_problem_is_rejected() -> None:
    K, y, rows = gaussian(7, 5)
    cert = certify(K, y, rows, 2.0, max_flips=2)
    other = K.copy()
    other[0, 0] = np.nextafter(other[0, 0], 9.0)
    for K_train, labels, K_test in ((other, y, rows), (K, 1 - np.asarray(y), rows), (K, y, rows[::-1])):
        found = verify(cert, K_train, labels, K_test)
        assert not found.accepted
        assert found.wrong[0].what == "problem"
    with pytest.raises(InvalidInput, match="need K_train of shape"):
        verify(cert, K[:3], y, rows)


def test_a_trusted_solver_is_not_trusted() -> None:
    K, y, rows = gaussian(6, 4)
    cert = certify(K, y, rows, 2.0, engine="milp-paper", trust_solver=True, max_flips=2)
    assert verify(cert, K, y, rows).complete


def test_graphs() -> None:
    cert = GCN(C=0.1).certify(karate(), [0, 1, 2, 32, 33], range(5, 30))
    assert verify(cert).complete


def test_a_shifted_kernel() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    K = X @ X.T
    cert = certify(K[:7, :7], [0, 1, 0, 1, 0, 1, 1], K[7:, :7], 0.3)
    assert verify(cert, K[:7, :7], [0, 1, 0, 1, 0, 1, 1], K[7:, :7]).complete
    assert isinstance(cert, Certificate)


def damaged(step: Step, **changes: object) -> Step:
    return msgspec.structs.replace(step, block=msgspec.structs.replace(step.block, **changes))


def test_proofs_that_are_not_well_formed_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branching, "LEAF_SETS", 1)
    K, y, rows = gaussian(7, 8, seed=4)
    cert = certify(K, y, rows, 2.0, engine="milp", max_flips=2)
    statement = Statement.of(cert, None, None, None)
    predicted = np.searchsorted(cert.classes, cert.predictions)
    assert cert.proofs is not None
    t, rivals = next((t, rivals) for t, rivals in cert.proofs.nodes.items() if _ends_by_tightening(rivals))
    (rival, proof), *_ = rivals.items()
    before = Trees(cert, statement, SVMTrainer(statement), predicted, lambda text: None).proved_radii()[t]
    assert before > 1
    for change in (
        lambda block: {"label": block.label + 100},
        lambda block: {"side": block.side + 7},
        lambda block: {"end": block.end - 5},
        lambda block: {"beta": block.beta * np.nan},
        lambda block: {"beta": block.beta[:, :2]},
        lambda block: {"price": block.price - np.inf},
        lambda block: {"passes": "many"},
    ):
        tree = Tree(
            steps=[damaged(step, **change(step.block)) if isinstance(step, Step) else step for step in proof.tree.steps]
        )
        nodes = {t: {rival: RivalProof(proof.budget, tree)}}
        broken = replace(cert, proofs=msgspec.structs.replace(cert.proofs, nodes=nodes))
        assert Trees(broken, statement, SVMTrainer(statement), predicted, lambda text: None).proved_radii()[t] == 0


def test_trees_with_a_part_missing_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branching, "LEAF_SETS", 1)
    K, y, rows = gaussian(8, 8, seed=5, dims=2)
    cert = certify(K, y, rows, 4.0, engine="milp", max_flips=2)
    statement = Statement.of(cert, None, None, None)
    predicted = np.searchsorted(cert.classes, cert.predictions)
    assert cert.proofs is not None
    curve = {b: tree for b, tree in cert.proofs.curve.items() if tree.parts}
    assert curve
    for b, tree in curve.items():
        for part in tree.parts:
            fewer = msgspec.structs.replace(tree, parts={k: v for k, v in tree.parts.items() if k != part})
            broken = replace(cert, proofs=msgspec.structs.replace(cert.proofs, curve={b: fewer}))
            trees = Trees(broken, statement, SVMTrainer(statement), predicted, lambda text: None)
            trees.proved_radii()
            assert trees.proved_curve()[b] == statement.n


def _ends_by_tightening(rivals: dict[int, RivalProof]) -> bool:
    trees = [proof.tree for proof in rivals.values()]
    return any(isinstance(step, Step) and step.kind == "tighten" for tree in trees for step in tree.steps[-1:])
