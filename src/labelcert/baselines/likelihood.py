"""How unlikely an event under noisy labels must be so that changed labels cannot make it likely.

Every label keeps its class with probability 1 - q, and else becomes one of the other K - 1 classes, all alike. Let the
adversary move r labels. The noisy labels then have another distribution. An event of probability u under the first
one has a probability below 1/2 under the other one, if u is below a threshold that depends on q, K and r alone.

All numbers are computed as balls that contain the true ones.
"""

from __future__ import annotations

from flint import arb, arb_poly

from labelcert.losses.balls import precision

BITS = 256


def divergence_threshold(q: float, n_classes: int, r: int) -> float:
    """A lower bound on the logarithm of the threshold by the Kullback-Leibler divergence.

    Data processing bounds the divergence of the event's two probabilities by that of the two distributions, which is
    ``r (1 − q − q/(K−1)) log((1−q)(K−1)/q)``. If the second probability were 1/2 or more, the first divergence would
    be at least ``−½ log(4u(1−u))``. So ``4u(1−u)`` has to be below ``x = exp(−2 · divergence)``.
    """
    with precision(BITS):
        keep, other, ratio = _noise(q, n_classes)
        x = (-2 * r * (keep - other) * ratio.log()).exp()
        root = (1 - x).max(arb(0)).sqrt() if r else arb(0)
        return _below((x / (2 * (1 + root))).log())


def best_threshold(q: float, n_classes: int, r: int) -> float:
    """A lower bound on the logarithm of the threshold by the lemma of Neyman and Pearson: the largest there is.

    The ratio of the two probabilities of a labelling is ``ρ^D`` with ``ρ = (1−q)(K−1)/q``, where D counts the moved
    labels that the noise leaves at their old class, minus those that it leaves at their new one. Of all events with a
    second probability of 1/2, the one of the labellings with the smallest D has the least first probability. For every
    k, ``Σ_{d<k} P(d) + ρ^k (1/2 − Σ_{d<k} P(−d))`` is a lower bound on it (linear duality), and the best k attains it.
    """
    with precision(BITS):
        keep, other, ratio = _noise(q, n_classes)
        # Coefficient d + r is the probability of D = d under the first distribution, and of D = -d under the second.
        law = [arb(1)] if r == 0 else (arb_poly([other, 1 - keep - other, keep]) ** r).coeffs()
        first, second, best = arb(0), arb(0), None
        for k in range(-r, r + 1):
            bound = first + ratio**k * (arb("0.5") - second)
            if best is None or float(bound.mid()) > float(best.mid()):
                best = bound
            if second > arb("0.5"):
                break
            first, second = first + law[k + r], second + law[r - k]
        assert best is not None
        return _below(best.log())


def _noise(q: float, n_classes: int) -> tuple[arb, arb, arb]:
    """Probabilities of keeping a label, and of each other class, and their ratio."""
    keep, other = 1 - arb(q), arb(q) / (n_classes - 1)
    return keep, other, keep / other


def _below(ball: arb) -> float:
    """A float below the ball; minus infinity where nothing is known."""
    lower = float(ball.lower()) if ball.is_finite() else float("-inf")
    return lower - 1e-15 * abs(lower)
