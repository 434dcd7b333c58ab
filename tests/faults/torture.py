"""``python -m tests.faults.torture``: a study that is killed again and again, and ends with the tables of a calm run.

Kills are spread over the whole run: each waits for its share of the results, and for a random moment more; every fourth
one comes while programs start. After each, no process of the study may be left a second later.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pandas as pd

from labelcert.jobs.store import JOURNAL
from tests.faults.registry import descendants, orphans_after, start

TIMES = ["seconds"]
"""Columns of tables that differ from run to run."""


def lines(out: Path) -> int:
    """How many results are saved."""
    path = out / JOURNAL
    return path.read_bytes().count(b"\n") if path.exists() else 0


def run(arguments: list[str], folder: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start the study."""
    with open(folder / "err", "wb") as err:
        return start(*arguments, "--out", out, "--workers", "2", cwd=folder, stdout=subprocess.DEVNULL, stderr=err)


def content(path: Path) -> bytes:
    """What must be equal: all bytes, but for columns with times."""
    if path.name.startswith("results"):
        frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
        return frame.drop(columns=TIMES).to_csv().encode()
    return path.read_bytes()


def main() -> None:
    """Torture a study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="cora-ml-b", help="a study of the paper")
    parser.add_argument("--data-dir", help="folder with the datasets")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--terms", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    arguments = ["reproduce", given.study, *(["--data-dir", given.data_dir] if given.data_dir else [])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calm, hurt = folder / "calm", folder / "hurt"
        began = time.monotonic()
        assert run(arguments, folder, calm).wait() == 0
        total = lines(calm)
        print(f"undisturbed: {total} certificates in {time.monotonic() - began:.0f} s", flush=True)
        blows = [signal.SIGKILL] * given.kills + [signal.SIGTERM] * given.terms
        rng.shuffle(blows)
        slowest, moments = 0.0, []
        for k, blow in enumerate(blows):
            process = run(arguments, folder, hurt)
            if k % 4 == 3:
                time.sleep(3 * rng.random())
            else:
                while lines(hurt) < total * k // len(blows) and process.poll() is None:
                    time.sleep(0.01)
                time.sleep(rng.random())
            workers = descendants(process.pid)
            process.send_signal(blow)
            hit = time.monotonic()
            code = process.wait(30)
            left = orphans_after(workers)
            slowest = max(slowest, time.monotonic() - hit)
            moments.append(lines(hurt))
            assert not left, f"left after {blow.name} number {k}: {left}"
            # A program that has not begun yet ends by the signal itself.
            assert code in (-9, 130, 0) or (code == -15 and not workers), code
            assert blow is signal.SIGKILL or b"Traceback" not in (folder / "err").read_bytes()
        print(f"{given.kills} kill -9 and {given.terms} SIGTERM, at {moments} of {total} certificates", flush=True)
        print(f"no process left; the last one was gone {slowest:.2f} s after its signal at the latest", flush=True)
        assert run(arguments, folder, hurt).wait() == 0
        assert lines(hurt) == total, "some certificate was computed twice"
        pairs = [(path, hurt / path.relative_to(calm)) for path in sorted(calm.rglob("*")) if path.is_file()]
        tables = [(one, two) for one, two in pairs if one.parent != calm]
        for one, two in tables:
            assert content(one) == content(two), one.name
        print(f"{len(tables)} files are byte-equal: {', '.join(one.name for one, _ in tables)}")


if __name__ == "__main__":
    main()
