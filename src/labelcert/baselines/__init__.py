"""Certificates of other authors, as baselines beside the exact ones.

Each of them proves lower ends of radii and nothing else. Models that are defended by sanitised labels have exact ones.
"""

from labelcert.baselines.baseline_engine import certify_baseline
from labelcert.baselines.registry import BASELINES, BaselineInfo, baseline_named
from labelcert.baselines.sanitizing import certify_sanitized

__all__ = ["BASELINES", "BaselineInfo", "baseline_named", "certify_baseline", "certify_sanitized"]
