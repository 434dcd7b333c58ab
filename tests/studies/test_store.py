"""The journal: what was written is read again, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labelcert._version import NUMERICS
from labelcert.errors import InvalidInput
from labelcert.jobs.records import read_record
from labelcert.jobs.store import JOURNAL, Store, _line

RESULT: dict[str, Any] = {
    **{"n_test": 4, "labels": 3, "max_flips": 1, "C": 0.5, "engine": "e", "exact": True, "stopped": "finished"},
    **{"problem_sha256": "ab", "kernel_shift": 0.0, "correct": 3, "correct_after": [3, 2], "attack": None},
    **{f"{name}_{end}": [4, 2] for name in ("survive", "correct", "changed") for end in ("lower", "upper")},
}


def record(cell: str, *, numerics: int = NUMERICS, **result: Any) -> dict[str, Any]:
    run = {"seconds": 0.1, "finished": "2026-01-01", "versions": {"labelcert": "1"}, "numerics": numerics}
    return {"cell": cell, "status": "done", "about": {}, "run": run, "result": {**RESULT, **result}}


def failed(cell: str) -> dict[str, Any]:
    return {**record(cell), "status": "failed", "result": None, "reason": "no"}


def filled(folder: Path, count: int = 3) -> None:
    with Store(folder, write=True) as store:
        for k in range(count):
            store.append(record(f"c{k}", C=0.1 * (k + 1)))


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    filled(tmp_path)
    store = Store(tmp_path)
    assert store.records["c1"]["result"] == {**RESULT, "C": 0.2}
    assert store.done("c0")
    assert not store.done("c9")
    assert [json.loads(line)["record"]["cell"] for line in (tmp_path / JOURNAL).read_text().splitlines()] == [
        "c0",
        "c1",
        "c2",
    ]


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_torn_last_record_is_dropped_and_the_next_is_intact(tmp_path: Path, cut: int) -> None:
    filled(tmp_path)
    path = tmp_path / JOURNAL
    path.write_bytes(path.read_bytes()[:-cut])
    with Store(tmp_path, write=True) as store:
        assert set(store.records) == {"c0", "c1"}
        assert store.dropped == 1
        store.append(record("c2"))
    again = Store(tmp_path)
    assert set(again.records) == {"c0", "c1", "c2"}
    assert again.dropped == 0


def test_a_damaged_record_is_left_out(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / JOURNAL
    path.write_bytes(path.read_bytes().replace(b'"C":0.2', b'"C":0.7'))
    store = Store(tmp_path)
    assert set(store.records) == {"c0", "c2"}
    assert store.dropped == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        [],
        {"cell": "c"},
        {**record("c"), "result": {}},
        {**record("c"), "result": None},
        {**record("c"), "run": {"seconds": "long", "numerics": NUMERICS}},
        {**record("c"), "status": "perhaps"},
        record("c", survive_lower=[4]),
        record("c", survive_lower=[4, 3]),  # above its upper end
        record("c", changed_upper=[4, 5]),  # above the number of nodes
        record("c", n_test=0),
        record("c", max_flips=-1),
        record("c", attack={"labels": "all"}),
        {**failed("c"), "reason": 3},
    ],
)
def test_nonsense_with_a_valid_checksum_is_left_out(tmp_path: Path, nonsense: Any) -> None:
    assert read_record(nonsense) is None
    filled(tmp_path, 1)
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(_line(nonsense))
    store = Store(tmp_path)
    assert set(store.records) == {"c0"}
    assert store.dropped == 1


def test_deeply_nested_lines_are_left_out(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b"[" * 100_000 + b"]" * 100_000 + b"\n")
    assert Store(tmp_path).dropped == 1


def test_a_line_that_is_too_long_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelcert.jobs.store.LONGEST", 1 << 12)
    filled(tmp_path, 1)
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b"x" * 10_000 + b"\n")
    filled(tmp_path, 3)
    with Store(tmp_path, write=True) as store:
        assert set(store.records) == {"c0", "c1", "c2"}
        assert store.dropped == 1
    assert set(Store(tmp_path).records) == {"c0", "c1", "c2"}


def test_results_of_another_engine_count_only_if_asked_for(tmp_path: Path) -> None:
    with Store(tmp_path, write=True) as store:
        store.append(record("old", numerics=NUMERICS - 1))
        store.append(record("new"))
    store = Store(tmp_path)
    assert (store.done("old"), store.done("new"), store.old) == (False, True, 1)
    store = Store(tmp_path, keep_old=True)
    assert (store.done("old"), store.done("new"), store.old) == (True, True, 0)
    with Store(tmp_path, write=True) as store:
        store.append(record("old"))
    assert Store(tmp_path).old == 0


def test_old_records_with_other_fields_are_old_not_damaged(tmp_path: Path) -> None:
    older = record("old", numerics=0)
    del older["result"]["correct_after"]
    with Store(tmp_path, write=True) as store:
        store.append(older)
    store = Store(tmp_path)
    assert (store.old, store.dropped) == (1, 0)
    assert Store(tmp_path, keep_old=True).dropped == 1  # nobody can read it any more


def test_halves_of_characters_are_kept(tmp_path: Path) -> None:
    with Store(tmp_path, write=True) as store:
        store.append({**failed("c"), "reason": "no file \udc80"})
    assert Store(tmp_path).records["c"]["reason"] == "no file \udc80"


def test_the_last_record_of_a_cell_counts(tmp_path: Path) -> None:
    with Store(tmp_path, write=True) as store:
        store.append(failed("c"))
        assert store.failed("c")
        store.append(record("c"))
    assert Store(tmp_path).done("c")


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with Store(tmp_path, write=True), pytest.raises(InvalidInput, match="another labelcert is writing"):
        Store(tmp_path, write=True)
    Store(tmp_path, write=True).close()


def test_a_store_for_reading_is_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="write=True"):
        Store(tmp_path).append(record("c"))
    assert not (tmp_path / JOURNAL).exists()
