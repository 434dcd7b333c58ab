r"""Gaussian expectations of the ReLU: the arc-cosine functions (Cho and Saul, 2009).

For :math:`(a, b) \sim N(0, \cdot)` with variances :math:`v_i, v_j`, covariance :math:`\Sigma_{ij}` and
correlation :math:`u = \Sigma_{ij} / \sqrt{v_i v_j}`,

.. math::
    E_{ij} = 2\,\mathbb{E}[\mathrm{ReLU}(a)\,\mathrm{ReLU}(b)] = \sqrt{v_i v_j}\,\kappa_1(u), \qquad
    \dot E_{ij} = 2\,\mathbb{E}[1_{a > 0}\,1_{b > 0}] = \kappa_0(u),

with :math:`\kappa_0(u) = 1 - \arccos(u)/\pi` and :math:`\kappa_1(u) = u\,\kappa_0(u) + \sqrt{1 - u^2}/\pi`.
The factor 2 is the networks' :math:`c_\sigma`: it keeps :math:`E_{ii} = v_i`.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float
from labelcert.models import chunks

COLLINEAR = 4e-15
"""Correlations this close to ±1 count as ±1, because the difference is only rounding."""


def kappa0(u: Float) -> Float:
    r"""Compute the arc-cosine function of order 0, :math:`\kappa_0(u) = 1 - \arccos(u)/\pi`, of correlations."""
    return 1.0 - np.arccos(u) / np.pi


def relu_expectations(sigma: Float, q: Float) -> tuple[Float, Float]:
    r"""Compute :math:`(E, \dot E)` as defined in the module docstring, entry by entry, with :math:`q = \sqrt{v_i v_j}`.

    Where q is zero, E is zero and :math:`\dot E` is set to its value for independent signs, 1/2, which only ever
    multiplies zeros.
    """
    u = np.divide(sigma, q, out=np.zeros_like(q), where=q > 0.0)
    # Near |u| = 1 the arc cosine turns a rounding error of 1e-16 into one of 1e-8, which differs between pairs of
    # equal nodes: enough to make the kernel indefinite. So correlations within rounding of ±1 become ±1.
    u[u > 1.0 - COLLINEAR] = 1.0
    u[u < -1.0 + COLLINEAR] = -1.0
    e_dot = kappa0(u)
    return q * (u * e_dot + np.sqrt((1.0 - u) * (1.0 + u)) / np.pi), e_dot


def clip_at_smaller_variance(sigma: Float, left_variance: Float, right_variance: Float) -> None:
    r"""Clip covariances in place as published: :math:`\Sigma_{ij} \leftarrow \min(\Sigma_{ij}, v_i, v_j)`.

    No Gaussian requires this (the valid bound is :math:`\sqrt{v_i v_j}`), and the result need not be positive
    semidefinite. Only ``variant="published"`` uses it.
    """
    for rows in chunks.row_chunks(len(sigma), sigma.shape[1], chunks.CACHE_ENTRIES):
        bound = np.minimum.outer(left_variance[rows], right_variance)
        np.minimum(sigma[rows], bound, out=sigma[rows])
