from __future__ import annotations

import json
from pathlib import Path

import pytest

from labelcert.errors import InvalidInput
from labelcert.studies.store import JOURNAL, Store


def filled(folder: Path, count: int = 3) -> None:
    with Store(folder, write=True) as store:
        for k in range(count):
            store.append({"cell": f"c{k}", "status": "done", "result": {"x": 0.1 * k}})


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    filled(tmp_path)
    store = Store(tmp_path)
    assert store.records["c2"]["result"] == {"x": 0.2}
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
        store.append({"cell": "c2", "status": "done"})
    again = Store(tmp_path)
    assert set(again.records) == {"c0", "c1", "c2"}
    assert again.dropped == 0


def test_a_damaged_record_is_left_out(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / JOURNAL
    path.write_bytes(path.read_bytes().replace(b'"x":0.1', b'"x":0.7'))
    store = Store(tmp_path)
    assert set(store.records) == {"c0", "c2"}
    assert store.dropped == 1


def test_the_last_record_of_a_cell_counts(tmp_path: Path) -> None:
    with Store(tmp_path, write=True) as store:
        store.append({"cell": "c", "status": "failed", "reason": "no"})
        assert store.failed("c")
        store.append({"cell": "c", "status": "done"})
    assert Store(tmp_path).done("c")


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with Store(tmp_path, write=True), pytest.raises(InvalidInput, match="another labelcert is writing"):
        Store(tmp_path, write=True)
    Store(tmp_path, write=True).close()


def test_a_store_for_reading_is_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="write=True"):
        Store(tmp_path).append({"cell": "c"})
    assert not (tmp_path / JOURNAL).exists()
