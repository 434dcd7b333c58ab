from __future__ import annotations

import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labelcert.errors import DataUnavailable
from labelcert.graphs.safe_pickle import read_pickled_data

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
DATA = [
    [1, -2, 300, 70_000, 2**40, 1.5, None, True, False, "text", (), (1, 2), (1, 2, 3, 4)],
    {"a": [1], "b": {"c": (None,)}},
]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3])
@pytest.mark.parametrize("value", DATA)
def test_plain_data_come_back(value: Any, protocol: int) -> None:
    assert read_pickled_data(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [1, 2, 3])
@pytest.mark.parametrize("array", [ARRAY, ARRAY.T, np.asfortranarray(ARRAY), np.arange(3), np.array([True])])
def test_arrays_come_back(array: Any, protocol: int) -> None:
    found = read_pickled_data(pickle.dumps(array, protocol))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("protocol", [1, 2, 3])
def test_sparse_matrices_come_back(protocol: int) -> None:
    matrix = sp.csr_matrix(ARRAY)
    found = read_pickled_data(pickle.dumps(matrix, protocol))
    np.testing.assert_array_equal(found.toarray(), ARRAY)


def test_python_2_pickles(python2_pickle: Callable[[Any], bytes]) -> None:
    graph = defaultdict(list, {0: [1, 300], 300: [0], 1: [0]})
    assert read_pickled_data(python2_pickle(graph)) == dict(graph)
    np.testing.assert_array_equal(read_pickled_data(python2_pickle(ARRAY)), ARRAY)
    found = read_pickled_data(python2_pickle(sp.csr_matrix(ARRAY)))
    np.testing.assert_array_equal(found.toarray(), ARRAY)


def test_shared_parts_and_ordered_dictionaries() -> None:
    shared = [1]
    assert read_pickled_data(pickle.dumps([shared, shared], 2)) == [[1], [1]]
    assert read_pickled_data(pickle.dumps(OrderedDict(a=1), 2)) == {"a": 1}
    assert read_pickled_data(pickle.dumps(np.float64(1.5), 2)) == 1.5


class _Attack:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (self.path,))


class _Evaluation:
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (eval, ("open('attack', 'w')",))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "attack"
    attack = pickle.dumps({"x": [_Attack(target)]}, protocol)
    pickle.loads(attack)
    assert target.exists()
    target.unlink()
    with pytest.raises(DataUnavailable, match="nothing in it was run"):
        read_pickled_data(attack)
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(_Evaluation(), 2),
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"\x80\x02cnumpy\nload\nU\x01x\x85R.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncos\nsystem\nK\x00\x85U\x01b\x87R.",
        b"\x80\x02c__builtin__\ngetattr\n.",
        b"\x80\x02\x82\x01.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"Ppersistent\n.",
    ],
)
def test_other_ways_to_run_code_are_refused(content: bytes) -> None:
    with pytest.raises(DataUnavailable, match="refused"):
        read_pickled_data(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02",
        b"not a pickle",
        pickle.dumps([1, 2, 3], 2)[:-1],
        pickle.dumps(ARRAY, 3)[:-40],
        pickle.dumps(np.array([object()], dtype=object), 2),
        pickle.dumps(np.dtype("f8"), 2).replace(b"f8", b"O8"),
        b"\x80\x02c__builtin__\nlist\n.",
        b"\x80\x02c__builtin__\nlist\n)R.",
        b"\x80\x02K\x01)R.",
        b"\x80\x02K\x01K\x02b.",
        b"e.",
        b"0.",
        b"]q\x00h\x00a.",
        b"(K\x01d.",
        b"K\x01K\x02.",
        b"(.",
        b"(\x85.",
        b"K\x01\x86.",
        b"K\x01s.",
        b"(q\x00.",
        b"](a.",
        b"}(K\x01s.",
        b"}NK\x01s.",
        b"})K\x01s.",
        b"}c__builtin__\nlist\nK\x01s.",
        b"\x80\x02cnumpy\ndtype\n]\x85R.",
        b"\x80\x02cnumpy\ndtype\nX\x05\x00\x00\x00f8,i4\x85R.",
        b"\x80\x02cnumpy\ndtype\nX\x05\x00\x00\x00(((((\x85R.",
        b"\x80\x02cnumpy\ndtype\nX\x0b\x00\x00\x00f9999999999\x85R.",
        b"\x80\x02c_codecs\nencode\n]]\x86R.",
        pickle.dumps(np.zeros((2, 3)), 2).replace(b"K\x02K\x03", b"K\x02J\xff\xff\xff\xff"),
        pickle.dumps(np.zeros((2, 3)), 2).replace(b"K\x02K\x03", b"K\x02G?\xf0\x00\x00\x00\x00\x00\x00"),
    ],
)
def test_damaged_or_unsuitable_pickles(content: bytes) -> None:
    with pytest.raises(DataUnavailable):
        read_pickled_data(content, what="the file x")


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=60), cut=st.integers(0, 200), place=st.integers(0, 200))
@example(content=b"", cut=0, place=0)
def test_arbitrary_bytes_give_data_or_one_kind_of_error(content: bytes, cut: int, place: int) -> None:
    intact = pickle.dumps({"x": [ARRAY, (1, 2)]}, 2)
    damaged = intact[:place] + content + intact[place + cut :]
    for attempt in (content, damaged):
        with suppress(DataUnavailable):
            read_pickled_data(attempt)


@pytest.mark.parametrize(
    "content",
    [
        b"}N" + b"\x85" * 300_000 + b"I1\ns.",
        b"N" + b"\x85" * 300_000 + b".",
        b"]" * 200 + b"a" * 199 + b".",
        b"N" + b"\x85" * 300_000 + b"cnumpy\ndtype\n" + b"\x85R.",
    ],
)
def test_deep_nesting_is_refused(content: bytes) -> None:
    with pytest.raises(DataUnavailable):
        read_pickled_data(content)
    assert read_pickled_data(b"N" + b"\x85" * 90 + b".") is not None


def test_a_list_shared_exponentially_is_refused() -> None:
    shared: list[Any] = [1]
    for _ in range(60):
        shared = [shared, shared]
    with pytest.raises(DataUnavailable, match="unfolds to more than"):
        read_pickled_data(pickle.dumps(shared, 2))
    pair: tuple[Any, ...] = (1,)
    for _ in range(60):
        pair = (pair, pair)
    # As a key, and as the code of a type, it would be hashed or printed.
    with pytest.raises(DataUnavailable, match="neither text nor a whole number"):
        read_pickled_data(b"}" + pickle.dumps(pair, 1)[:-1] + b"K\x01s.")
    code = b"cnumpy\ndtype\n(" + pickle.dumps(pair, 1)[:-1] + b"tR."
    with pytest.raises(DataUnavailable, match="bytes were expected, not a tuple"):
        read_pickled_data(code)
    array: list[Any] = [np.zeros(1_000_000)] * 30
    with pytest.raises(DataUnavailable, match="unfolds to more than"):
        read_pickled_data(pickle.dumps(array, 3))


def test_a_list_in_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append([ring])
    with pytest.raises(DataUnavailable, match="contains itself"):
        read_pickled_data(pickle.dumps(ring, 2))
