"""Benchmarks: ratios measured side by side in one run. Start them with ``python -m benchmarks``.

Every measurement runs in a process of its own (:mod:`benchmarks.child`), so that peak memory and compilation
belong to it alone; the parent process only collects and prints.
"""
