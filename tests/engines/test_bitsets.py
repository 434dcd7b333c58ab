from __future__ import annotations

import numpy as np

from labelcert.engines.bitsets import positions_of, words_for


def test_positions() -> None:
    bits = np.array([0b101, 1 << 3], dtype=np.uint64)
    assert positions_of(bits).tolist() == [0, 2, 67]


def test_words() -> None:
    assert [words_for(labels) for labels in (0, 1, 64, 65, 128, 129)] == [1, 1, 1, 2, 2, 3]
