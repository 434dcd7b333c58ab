"""Certificates of other authors, as baselines beside the exact ones.

Each of them proves lower ends of radii and nothing else.
"""

from labelcert.baselines.baseline_engine import certify_baseline
from labelcert.baselines.registry import BASELINES, BaselineInfo, baseline_named

__all__ = ["BASELINES", "BaselineInfo", "baseline_named", "certify_baseline"]
