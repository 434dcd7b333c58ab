"""Rows that are read block by block."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import scipy.sparse

from labelcert.errors import InvalidInput
from labelcert.problem import rows as rows_module
from labelcert.problem.rows import Rows


def whole(rows, m):
    out = []
    for block in rows:
        full = np.zeros((block.rows.shape[0], m))
        full[:, slice(None) if block.columns is None else block.columns] = block.rows
        out.append(full)
    return np.concatenate(out)


def digest(rows, m):
    h = hashlib.sha256()
    for block in rows:
        block.update(h, m)
    return h.hexdigest()


@pytest.mark.parametrize("cells", [10**6, 60, 1])
def test_all_forms_give_the_same_rows(cells, monkeypatch):
    monkeypatch.setattr(rows_module, "BLOCK_CELLS", cells)
    rng = np.random.default_rng(0)
    H = np.where(rng.random((17, 12)) < 0.3, rng.normal(size=(17, 12)), 0.0)
    H[3] = 0.0
    H[5] = 1.0
    sparse = scipy.sparse.csc_matrix(H)
    forms = [H, H.tolist(), sparse, [H[:5], sparse[5:].tocoo()], np.asfortranarray(H)]
    for form in forms:
        assert digest(Rows(form, 12), 12) == digest(Rows(H, 12), 12)
        np.testing.assert_array_equal(whole(Rows(form, 12), 12), H)
    np.testing.assert_array_equal(whole(Rows(iter([H[:1], H[1:]]), 12), 12), H)


def test_integers_and_float32_are_read_as_they_are():
    H = np.array([[1, 2], [3, 4]], dtype=np.int32)
    np.testing.assert_array_equal(whole(Rows(H, 2), 2), H)
    short = (H / 3).astype(np.float32)
    np.testing.assert_array_equal(whole(Rows(short, 2), 2), short.astype(float))


def test_blocks_are_checked_as_they_come():
    rows = Rows(iter([np.ones((2, 3)), np.full((1, 3), np.nan)]), 3)
    blocks = iter(rows)
    assert next(blocks).rows.shape == (2, 3)
    with pytest.raises(InvalidInput, match="from row 2 on"):
        next(blocks)
