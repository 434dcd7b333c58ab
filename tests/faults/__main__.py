"""``python -m tests.faults``: every fault, what was seen before it was mended, and what is seen now."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.faults.collected import FAULTS

wanted = sys.argv[1:]
print("| fault | before | now |\n|---|---|---|")
for fault in FAULTS:
    if wanted and not any(word in fault.name for word in wanted):
        continue
    with tempfile.TemporaryDirectory() as folder:
        now = fault.attack(Path(folder))
    print(f"| {fault.name} | {fault.before} | {now.replace('|', '/')} |", flush=True)
