from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labelcert.errors import InvalidInput
from labelcert.graphs.class_coding import encode_classes


@pytest.mark.parametrize(
    ("values", "labels", "names"),
    [
        (["b", "", None, "a"], [1, -1, -1, 0], ("a", "b")),
        ([2.0, np.nan, 10], [0, -1, 1], ("2", "10")),
        (["1", 1, 1.0, np.int64(1)], [0, 0, 0, 0], ("1",)),
        ([True, False], [1, 0], ("False", "True")),
        ([0.5, 1], [0, 1], ("0.5", "1")),
        ([], [], ()),
    ],
)
def test_class_coding(values: list[Any], labels: list[int], names: tuple[str, ...]) -> None:
    found, classes = encode_classes(values)
    assert (found.tolist(), classes) == (labels, names)


def test_words_that_may_mean_no_label_are_refused_with_their_place() -> None:
    for values, place in ((["a", "NA"], "entry 1"), (["a", -1], "entry 1"), ([0, 1, -1], "entry 2")):
        with pytest.raises(InvalidInput, match=f"in {place}, which may stand for no label"):
            encode_classes(values)
    assert encode_classes([1, -1, None])[0].tolist() == [1, 0, -1]
