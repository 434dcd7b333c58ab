"""One measurement in one process: ``python -m benchmarks.child NAME '{"json": "options"}'`` prints JSON.

Nothing heavy is imported at the top, so that the measurement of a first call sees its imports.
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes.

    Where the system tells it per program (Linux) that is used: the figure of ``getrusage`` survives ``exec``, so a
    large parent would count as well.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _warm_up(workers: int | None) -> None:
    """Load (or compile) everything that a measurement is about to use."""
    import labelcert
    from benchmarks.problems import dense

    arrays = dense(6, 3)
    labelcert.certify(*arrays, engine="enumerate", workers=workers)
    labelcert.certify(*arrays, engine="enumerate", max_flips=1, workers=workers)


def _seconds_per_fit(arrays: Any, fits: int) -> tuple[float, float | None]:
    """Median seconds of one scikit-learn fit: the public ``SVC``, and libsvm alone where it can be reached."""
    import numpy as np
    from sklearn.svm import SVC

    from benchmarks.problems import random_labellings

    labellings = random_labellings(arrays.labels.size, fits)
    model = SVC(kernel="precomputed", C=arrays.C)
    model.fit(arrays.K_train, labellings[0])
    whole = []
    for y in labellings:
        started = time.perf_counter()
        model.fit(arrays.K_train, y)
        whole.append(time.perf_counter() - started)
    try:
        from sklearn.svm import _libsvm

        K = np.ascontiguousarray(arrays.K_train)
        bare = []
        for y in labellings:
            started = time.perf_counter()
            _libsvm.fit(K, y, svm_type=0, kernel="precomputed", C=arrays.C)
            bare.append(time.perf_counter() - started)
    except (ImportError, TypeError, AttributeError):  # not a public interface
        return statistics.median(whole), None
    return statistics.median(whole), statistics.median(bare)


def throughput(m: int, fits: int, repeats: int, workers: list[int]) -> list[Row]:
    """Trainings per second, ours and scikit-learn's, on one problem with one test node."""
    import labelcert
    from benchmarks.problems import dense

    arrays = dense(m, 1)
    _warm_up(None)
    svc, libsvm = _seconds_per_fit(arrays, fits)
    rows: list[Row] = [{"solver": "scikit-learn SVC.fit", "trainings": fits, "per_second": 1 / svc, "ratio": 1.0}]
    if libsvm is not None:
        rows.append(
            {
                "solver": "libsvm without SVC's Python",
                "trainings": fits,
                "per_second": 1 / libsvm,
                "ratio": svc / libsvm,
            }
        )
    for count in workers:
        rates = []
        for _ in range(repeats):
            started = time.perf_counter()
            cert = labelcert.certify(*arrays, engine="enumerate", workers=count)
            trainings = cert.run.stages[0].statistics["trainings"]
            rates.append(trainings / (time.perf_counter() - started))
        rate = statistics.median(rates)
        rows.append(
            {
                "solver": f"labelcert, {count} worker{'s' if count > 1 else ''}",
                "trainings": trainings,
                "per_second": rate,
                "ratio": rate * svc,
            }
        )
    return rows


def certificate(
    m: int, n: int, max_flips: int | None, workers: int | None, repeats: int = 1, fits: int = 0
) -> list[Row]:
    """All radii and the whole curve of one dense problem; beside it, scikit-learn's time for as many fits."""
    import labelcert
    from benchmarks.problems import dense, share_free

    arrays = dense(m, n)
    _warm_up(workers)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        cert = labelcert.certify(*arrays, engine="enumerate", max_flips=max_flips, workers=workers)
        seconds.append(time.perf_counter() - started)
    peak = peak_memory()
    elapsed = statistics.median(seconds)
    done = cert.run.stages[0].statistics
    row: Row = {
        "m": m,
        "max_flips": max_flips,
        "nodes": n,
        "workers": cert.run.workers,
        "exact": cert.exact,
        "trainings": done["trainings"],
        "doubts": done["doubtful_labellings"],
        "seconds": elapsed,
        "per_second": done["trainings"] / elapsed,
        "peak_bytes": peak,
    }
    if fits:
        labellings = 2 ** (m - 1) if max_flips is None else sum(math.comb(m, k) for k in range(max_flips + 1))
        svc, _ = _seconds_per_fit(arrays, fits)
        row["labellings"] = labellings
        row["free_clean"], row["free_random"] = share_free(arrays)
        row["svc_projected_seconds"] = labellings * svc
        row["ratio"] = labellings * svc / elapsed
    return [row]


def ridge(m: int, n: int, workers: int | None) -> list[Row]:
    """Kernel ridge regression, all budgets; seconds until the radii are known, and of the whole call."""
    import numpy as np

    import labelcert
    from benchmarks.problems import dense

    arrays = dense(m, n)
    small = dense(6, 3)
    labelcert.certify(*small, loss="square", workers=workers)
    labelcert.certify(*small, loss="square", max_flips=1, workers=workers)
    started = time.perf_counter()
    cert = labelcert.certify(*arrays, loss="square", workers=workers)
    whole = time.perf_counter() - started
    peak = peak_memory()
    done = cert.run.stages[0].statistics
    curve = done["seconds"] - done["seconds_for_radii"]
    return [
        {
            "m": m,
            "nodes": n,
            "radii_exact": bool((cert.radius_lower == cert.radius_upper).all()),
            "seconds_for_radii": done["seconds_for_radii"],
            "seconds_without_curve": whole - curve,
            "curve_exact_to": int(np.argmin(np.append(cert.collective_lower == cert.collective_upper, False))) - 1,
            "seconds": whole,
            "peak_bytes": peak,
        }
    ]


def first_call() -> list[Row]:
    """Import and one small certificate, nothing warmed up by this process."""
    started = time.perf_counter()
    import labelcert
    from benchmarks.problems import dense

    imported = time.perf_counter() - started
    labelcert.certify(*dense(8, 5))
    seconds = time.perf_counter() - started
    return [{"import_seconds": imported, "seconds": seconds, "cpu_seconds": time.process_time()}]


def compile_all() -> list[Row]:
    """Fill the compilation cache, so that no later process compiles: it takes time and memory."""
    import labelcert
    from benchmarks.problems import dense

    _warm_up(None)
    labelcert.certify(*dense(6, 3), loss="square")
    labelcert.certify(*dense(6, 3), loss="square", max_flips=1)
    return []


def kernel(model: str, options: Row, n: int, edges: int, labeled: int, test: int) -> list[Row]:
    """One kernel on a random graph with sparse features: all of it (``labeled = 0``) or the blocks of a certificate."""
    import numpy as np

    from benchmarks.problems import citation_like
    from labelcert.models import model_from_name

    graph = citation_like(n, edges)
    chosen = model_from_name(model, **options)
    nodes = np.random.default_rng(0).permutation(n)
    started = time.perf_counter()
    if labeled:
        chosen.kernel_blocks(graph, nodes[:labeled], nodes[labeled : labeled + test])
    else:
        chosen.kernel(graph)
    seconds = time.perf_counter() - started
    shown = ", ".join([model, *(f"{key} {value}" for key, value in options.items())])
    return [{"model": shown, "nodes": n, "seconds": seconds, "peak_bytes": peak_memory()}]


TASKS: dict[str, Callable[..., list[Row]]] = {
    "compile_all": compile_all,
    "throughput": throughput,
    "certificate": certificate,
    "ridge": ridge,
    "first_call": first_call,
    "kernel": kernel,
}


if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
