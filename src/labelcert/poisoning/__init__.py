"""Poisoned features, and poisoned labels beside them: certificates, and attacks that are replayed."""

from labelcert.poisoning.asking import FeaturePoison, certify_features
from labelcert.poisoning.attacking import FeatureAttack, attack_features

__all__ = ["FeatureAttack", "FeaturePoison", "attack_features", "certify_features"]
