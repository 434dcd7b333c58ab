"""Certificates of predictions that keep a margin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labelcert.arrays import Float
from labelcert.certificate import Certificate
from labelcert.certificate.certificate import frozen
from labelcert.engines.freezing import Names
from labelcert.prediction import Predictor
from labelcert.problem import Problem


def restored(
    cert: Certificate, problem: Problem, clean: Predictor, margin: Float, names: Names, source: str
) -> Certificate:
    """The certificate of a lowered problem, in terms of the given one.

    Parameters
    ----------
    cert : Certificate
        Of :func:`labelcert.problem.margin.lowered`.
    problem : Problem
    clean : Predictor
        Its clean predictions.
    margin : (n,) array
    names : Names
    source : str
        Where the margins come from.
    """
    K_train, K_test = problem.kernels
    plain = replace(
        cert,
        predictions=frozen(problem.classes[clean.shown]),
        decision_values=frozen(clean.decision),
        labels=problem.labels,
        label_names=names.labels,
        around=names.around,
        K_train=K_train,
        K_test=K_test,
        run=replace(cert.run, problem_sha256=problem.digest()),
        proofs=None,
    )
    return noting_margin(plain, margin, source)


def noting_margin(cert: Certificate, margin: Float, source: str) -> Certificate:
    """The certificate, with a record of its (n,) margins and of where they come from."""
    alike = bool(np.all(margin == margin[:1]))
    own = float(margin[0]) if alike and margin.size else tuple(margin.tolist())
    plain = replace(cert, run=replace(cert.run, margin=own, margin_from=source))
    return replace(plain, checksum=plain.computed_checksum())
