"""What QPCert's program proves about kernels with errors is proved here, too, without believing a solver."""

from __future__ import annotations

import numpy as np
from tests.svm.test_uncertain import drawn_problem

from labelcert.paper.milp.qpcert import least_score
from labelcert.svm import train
from labelcert.svm.uncertain import UncertainMachine


def compared(seed: int, problems: int) -> tuple[int, int, int]:
    """How many signs of scores are proved by both, by QPCert alone, and by the bounds here alone."""
    rng, found = np.random.default_rng(seed), [0, 0, 0]
    for _ in range(problems):
        Q, rows, E, e, C, y = drawn_problem(rng)
        z = train(Q, y, C)
        zero = np.zeros(len(rows))
        machine = UncertainMachine(Q, E, rows, e, C)
        low, high = machine.scores(y, np.clip(y * z, 0.0, C), zero, zero, programs=True, tighten=True)
        for t, p in enumerate(rows @ z):
            sign = float(np.sign(p)) or 1.0
            least = least_score((Q - E, Q + E), (rows[t] - e[t], rows[t] + e[t]), y, C, sign=sign)
            assert least <= sign * p + 1e-6 * (1 + abs(p))
            ours = low[t] > 0 if sign > 0 else high[t] < 0
            theirs = least > 1e-6 * (1 + abs(p))
            found[0 if ours and theirs else 1 if theirs else 2 if ours else 0] += bool(ours or theirs)
    return found[0], found[1], found[2]


def test_nothing_is_left_that_the_program_proves() -> None:
    found = [compared(seed, problems) for seed, problems in ((0, 25), (30, 8))]
    assert min(both for both, _, _ in found) > 10
    assert [theirs for _, theirs, _ in found] == [0, 0]
