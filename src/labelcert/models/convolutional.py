r"""The convolutional network on images (Arora et al., 2019).

An image has pixels p, with a vector of channels each. With windows of q × q pixels, o the offsets within one, zeros
beyond the border, and the pair of pixels (p, p') of two images,

.. math::
    A[M](p, p') = \frac{1}{q^2} \sum_o M(p + o, p' + o).

The recursion is :math:`\Sigma_1 = A[x \cdot x'], \Theta_1 = \Sigma_1, \Sigma_{l+1} = A[E_l]` and :math:`\Theta_{l+1} =
\Sigma_{l+1} + A[\Theta_l \odot \dot E_l]`, and the kernel the mean of :math:`E_L + \Theta_L \odot \dot E_L`: over all
pairs of pixels if the last layer is averaged over them, and else over the pairs with p = p'. A keeps p − p', so
the latter need no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Float, Int
from labelcert.checking import in_short, one_of, whole_number
from labelcert.memory import require_memory
from labelcert.models import chunks
from labelcert.models.activations import Activation, expectations
from labelcert.models.base import require
from labelcert.models.features import Features
from labelcert.models.plain_kernels import PairwiseModel

Pooling = Literal["average", "flatten"]
POOLINGS: tuple[str, ...] = get_args(Pooling)


@dataclass(frozen=True, kw_only=True)
class CNN(PairwiseModel):
    r"""Convolutional network on images; edges play no role.

    Network: :math:`H_l = \sqrt{c/h}\,\sigma(U_l)`, :math:`U_l(p) = \tfrac{1}{q} \sum_o H_{l-1}(p + o) W_{l,o}` with
    zeros beyond the border, :math:`H_0` the image. Then :math:`f = \tfrac{1}{P} \sum_p H_L(p) V` over the P pixels
    with ``pooling="average"``, and :math:`f = \tfrac{1}{\sqrt P} \sum_p H_L(p) V_p` with ``"flatten"``. All weights
    are standard Gaussian and trained. There are no biases.

    Kernel: that of `labelcert.models.convolutional`.

    Parameters
    ----------
    depth
        Convolutions L.
    filter
        Width q of their windows, odd.
    pooling
        ``"average"`` takes time and memory in the square of the number of pixels.
    image
        Height, width and channels of an image, whose pixels are the features row by row, channels last. None: square
        images with one channel.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import CNN, Graph
    >>> images = np.zeros((2, 9))
    >>> images[0, 0] = images[1, 8] = 1.0  # a dot in two corners
    >>> graph = Graph(np.zeros((2, 2)), images, [0, 1])
    >>> CNN(pooling="flatten").kernel(graph).round(4).tolist(), CNN().kernel(graph).round(4).tolist()
    ([[0.0988, 0.0039], [0.0039, 0.0988]], [[0.0162, 0.0093], [0.0093, 0.0162]])
    """

    depth: int = 1
    filter: int = 3
    pooling: Pooling = "average"
    activation: Activation = "relu"
    image: tuple[int, int, int] | None = None

    def _check(self) -> None:
        whole_number("filter", self.filter, 1, remark="pixels, odd")
        require(self.filter % 2 == 1, f"filter must be an odd number of pixels, got {self.filter}")
        one_of("pooling", self.pooling, POOLINGS)
        if isinstance(self.image, list):  # files have no tuples
            object.__setattr__(self, "image", tuple(self.image))
        if self.image is not None:
            good = isinstance(self.image, tuple) and len(self.image) == 3
            require(good, f"image must be (height, width, channels), got {in_short(self.image)}")
            for name, size in zip(("height", "width", "channels"), self.image, strict=True):
                whole_number(f"{name} of image", size, 1)

    def _between(self, left: Features, right: Features, *, same: bool) -> Float:
        height, width, channels = self._shape(int(left.shape[1]))
        P = height * width
        entries = P if self.pooling == "flatten" else P * P
        at_once = max(entries, chunks.CACHE_ENTRIES)
        numbers = 3 * entries * self.filter**2 + 10 * at_once + 2 * self.depth * P * (left.shape[0] + right.shape[0])
        require_memory(8 * numbers, f"the kernel of images of {P} pixels", "use pooling='flatten', or smaller images")
        images = [
            (X if isinstance(X, np.ndarray) else X.toarray()).reshape(-1, P, channels).transpose(1, 0, 2)
            for X in (left, right)
        ]
        i = j = np.arange(P)
        windows = _windows(height, width, self.filter, i, j)
        left_variances, right_variances = (self._variances(X, windows) for X in images)
        if self.pooling == "average":
            i, j = np.repeat(i, P), np.tile(j, P)
            windows = _windows(height, width, self.filter, i, j)
        K = np.empty((int(left.shape[0]), int(right.shape[0])))
        for row in range(len(K)):
            columns = row + 1 if same else K.shape[1]  # the other half of a square is its mirror image
            for part in chunks.row_chunks(columns, entries, chunks.CACHE_ENTRIES // 2):
                products = np.einsum("pc,pbc->pb", images[0][i, row], images[1][j, part])
                v = [variances[i, row, None] for variances in left_variances]
                w = [variances[j, part] for variances in right_variances]
                K[row, part] = self._pooled(windows, products, v, w)
        return np.asarray(np.tril(K) + np.tril(K, -1).T) if same else K

    def _shape(self, d: int) -> tuple[int, int, int]:
        height, width, channels = self.image or (isqrt(d), isqrt(d), 1)
        require(
            height * width * channels == d,
            f"{d} features are not the pixels of {'a square image' if self.image is None else f'images {self.image}'}; "
            "give image=(height, width, channels)",
        )
        return height, width, channels

    def _pooled(self, windows: sp.csr_array, products: Float, left: list[Float], right: list[Float]) -> Float:
        """The kernel of one image and some others, from the products of their pixels and the variances there."""
        sigma = windows @ products
        theta = sigma.copy()
        for level in range(self.depth):
            if level:
                sigma = windows @ sigma
                theta = sigma + windows @ theta
            sigma, slope = expectations(self.activation, sigma, left[level], right[level])
            theta *= slope
        return np.asarray((sigma + theta).mean(axis=0))

    def _variances(self, images: Float, windows: sp.csr_array) -> list[Float]:
        """(P, n) variances of each layer's pre-activations."""
        found = [windows @ np.einsum("pnc,pnc->pn", images, images)]
        for _ in range(self.depth - 1):
            found.append(windows @ expectations(self.activation, found[-1], found[-1], found[-1])[0])
        return found


def _windows(height: int, width: int, q: int, i: Int, j: Int) -> sp.csr_array:
    """A as a matrix, on the pairs of pixels (i, j) in ascending order, which contain those that it leads to."""
    P = height * width
    rows, columns = [], []
    for down in range(-(q // 2), q // 2 + 1):
        for along in range(-(q // 2), q // 2 + 1):
            inside = np.ones(i.size, dtype=bool)
            for p in (i, j):
                y, x = p // width + down, p % width + along
                inside &= (y >= 0) & (y < height) & (x >= 0) & (x < width)
            shift = down * width + along
            rows.append(np.flatnonzero(inside))
            columns.append(np.searchsorted(i * P + j, (i[inside] + shift) * P + j[inside] + shift))
    where = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_array((np.full(where[0].size, 1.0 / q**2), where), shape=(i.size, i.size))
