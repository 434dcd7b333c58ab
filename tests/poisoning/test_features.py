"""Certificates against poisoned features: no features, and no labels beside them, change what is certified."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from labelcert import APPNP, GCN, GIN, SGC, Graph, GraphSAGE, InvalidInput, certify, verify
from labelcert.models.poisoned import NORMS, FeatureBall
from labelcert.poisoning import FeaturePoison, attack_features, certify_features
from labelcert.verification import CheckStatus
from tests.models.test_poisoned import addition, drawn_graph

MODELS = [GCN(C=0.3), SGC(C=2.0), GraphSAGE(C=0.02), GIN(C=0.05), APPNP(C=0.1, iterations=3)]
LABELED, TEST = np.array([0, 2, 5, 6, 8, 10]), np.array([1, 3, 4, 7, 9])


def named(graph: Graph, classes: int) -> Graph:
    return Graph(graph.adjacency, graph.features, np.arange(11) % classes)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("classes", [2, 3])
def test_no_features_change_what_is_certified(model: Any, classes: int) -> None:
    rng = np.random.default_rng(classes + len(repr(model)))
    for norm, inductive, loss in zip(
        NORMS, (False, True, False, True), ("hinge", "hinge", "square", "hinge"), strict=True
    ):
        graph = named(drawn_graph(rng, binary=norm == "0"), classes)
        poisoned = rng.permutation(11)[:2]
        ball = FeatureBall(1 if norm == "0" else float(rng.choice([0.01, 0.05, 0.2])), norm)
        how = {"poisoned": poisoned, "radius": ball.radius, "norm": norm, "flips": 1, "loss": loss}
        cert = certify_features(model, graph, LABELED, TEST, inductive=inductive, **how)
        plain = model.certify(graph, LABELED, TEST, inductive=inductive, max_flips=1, loss=loss)
        assert np.all(cert.radius_lower <= plain.radius_lower)
        assert np.array_equal(cert.radius_upper, plain.radius_upper)
        assert np.array_equal(cert.collective_lower, plain.collective_lower)
        assert np.all(cert.collective_upper >= plain.collective_upper)
        for _ in range(4):
            X = np.array(graph.features)
            for i in poisoned:
                X[i] += addition(rng, ball, X[i])
            other = Graph(graph.adjacency, X, graph.labels)
            after = model.certify(other, LABELED, TEST, inductive=inductive, max_flips=1, loss=loss)
            same = after.predictions == cert.predictions
            assert np.all(same[cert.radius_lower > 0])
            assert np.all(after.radius_upper[cert.radius_lower > 0] >= cert.radius_lower[cert.radius_lower > 0])
            changed = after.collective_lower[1] if same.all() else 0
            assert changed <= cert.collective_upper[1]


@pytest.mark.parametrize("inductive", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_backdoor_changes_the_features_of_one_test_node(model: Any, inductive: bool) -> None:
    rng = np.random.default_rng(len(repr(model)) + inductive)
    kept = 0
    for norm, loss, classes in zip(NORMS, ("hinge", "square", "hinge", "hinge"), (2, 3, 3, 2), strict=True):
        graph, poisoned = named(drawn_graph(rng, binary=norm == "0"), classes), rng.permutation(11)[:1]
        ball = FeatureBall(1 if norm == "0" else float(rng.choice([0.01, 0.05])), norm)
        how = {"radius": ball.radius, "norm": norm, "flips": 1, "loss": loss, "inductive": inductive}
        cert = certify_features(model, graph, LABELED, TEST, poisoned=poisoned, backdoor=True, **how)
        together = certify_features(model, graph, LABELED, TEST, poisoned=np.union1d(poisoned, TEST), **how)
        nobody = certify_features(model, graph, LABELED, TEST, poisoned=poisoned, **how)
        assert np.all(together.radius_lower <= cert.radius_lower)
        assert np.all(cert.radius_lower <= nobody.radius_lower)
        errors = FeaturePoison(poisoned, ball, backdoor=True).kernel_errors(
            model, graph, LABELED, TEST, inductive=inductive, seconds=float(rng.choice([0.0, np.inf]))
        )
        blocks = model.kernel_blocks(graph, LABELED, TEST, inductive=inductive)
        for t, node in enumerate(TEST):
            X = np.array(graph.features)
            for i in {*poisoned.tolist(), int(node)}:
                X[i] += addition(rng, ball, X[i])
            other = Graph(graph.adjacency, X, graph.labels)
            after = model.certify(other, LABELED, TEST, inductive=inductive, max_flips=1, loss=loss)
            K, rows = model.kernel_blocks(other, LABELED, TEST, inductive=inductive)
            (below, above), (test_below, test_above) = errors["kernel_error"], errors["test_kernel_error"]
            assert np.all((blocks[0] - below[t] <= K) & (blocks[0] + above[t] >= K))
            assert np.all((blocks[1] - test_below <= rows)[t] & (rows <= blocks[1] + test_above)[t])
            if cert.radius_lower[t] > 0:
                kept += 1
                assert after.predictions[t] == cert.predictions[t]
                assert after.radius_upper[t] >= cert.radius_lower[t]
        assert not any(check.status is CheckStatus.WRONG for check in verify(cert).checks)
    assert kept > 0


def test_kernels_of_test_rows_are_drawn_by_verify() -> None:
    graph = named(drawn_graph(np.random.default_rng(5), binary=False), 2)
    poison = FeaturePoison([0, 3], FeatureBall(0.05), backdoor=True)
    errors = poison.kernel_errors(GCN(C=0.3), graph, LABELED, TEST)
    K, rows = GCN(C=0.3).kernel_blocks(graph, LABELED, TEST)
    cert = certify(K, graph.labels[LABELED], rows, 0.3, max_flips=1, **errors)
    assert verify(cert, K, graph.labels[LABELED], rows, **errors).accepted
    assert not verify(cert, K, graph.labels[LABELED], rows, **{**errors, "test_kernel_error": 0.5}).accepted


def test_without_a_radius_it_is_the_certificate_of_today() -> None:
    graph = named(drawn_graph(np.random.default_rng(1), binary=False), 2)
    for model, loss in itertools.product(MODELS, ("hinge", "square")):
        cert = certify_features(model, graph, LABELED, TEST, poisoned="all", radius=0.0, flips=2, loss=loss)
        plain = model.certify(graph, LABELED, TEST, max_flips=2, loss=loss)
        assert cert.exact == plain.exact
        assert cert.run.kernel_error_sha256 == ""
        for name in ("radius_lower", "radius_upper", "collective_lower", "collective_upper", "decision_values"):
            assert np.array_equal(getattr(cert, name), getattr(plain, name))


def test_more_poison_certifies_less() -> None:
    graph = named(drawn_graph(np.random.default_rng(2), binary=False), 2)
    for engine in ("auto", "milp", "relaxed"):
        before = np.full(5, 9)
        for radius in (0.0, 0.001, 0.01, 0.1, 1.0):
            cert = certify_features(
                GCN(C=0.3), graph, LABELED, TEST, poisoned=2, radius=radius, flips=2, engine=engine, margin=0.01
            )
            assert np.all(cert.radius_lower <= before)
            before = cert.radius_lower


def test_attacks_change_nothing_that_is_certified() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for k, norm in enumerate(NORMS):
        graph = named(drawn_graph(rng, binary=norm == "0"), 2)
        how: dict[str, Any] = {"poisoned": [0, 1, 9], "radius": 2 if norm == "0" else 1.0, "norm": norm}
        for backdoor in (False, True):
            cert = certify_features(MODELS[k], graph, LABELED, TEST, backdoor=backdoor, **how)
            attack = attack_features(MODELS[k], graph, LABELED, TEST, steps=1, backdoor=backdoor, **how)
            assert not np.any(attack.changed & (cert.radius_lower > 0))
            assert attack.changed.sum() == (attack.attack_of >= 0).sum()
            found += int(attack.changed.sum())
    assert found > 0


def test_who_is_poisoned() -> None:
    ball = FeatureBall(0.1)
    assert FeaturePoison("labeled", ball).mask(11, LABELED, TEST).nonzero()[0].tolist() == LABELED.tolist()
    assert FeaturePoison("all", ball).mask(11, LABELED, TEST).all()
    assert FeaturePoison(3, ball).mask(11, LABELED, TEST).sum() == 3
    assert FeaturePoison(0.5, ball).mask(11, LABELED, TEST).sum() == 5
    for wrong in ("everybody", 12, -1, 2.5, [11]):
        with pytest.raises(InvalidInput, match="poisoned"):
            FeaturePoison(wrong, ball).mask(11, LABELED, TEST)


def test_errors_that_make_no_sense_are_refused() -> None:
    K, labels, rows = np.eye(3), [0, 1, 0], np.ones((2, 3))
    for wrong in (-1.0, float("nan"), "much", np.ones((2, 2)), [[1.0], [2.0]]):
        with pytest.raises(InvalidInput, match="kernel_error must"):
            certify(K, labels, rows, 1.0, kernel_error=wrong)
    with pytest.raises(InvalidInput, match=r"test_kernel_error must .* shape"):
        certify(K, labels, rows, 1.0, test_kernel_error=np.ones((3, 2)))
