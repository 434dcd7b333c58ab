"""Noise instead of an adversary: how probable it is that predictions change when each label may be wrong by chance."""

from labelcert.labelnoise.asking import noise, noise_linear, noise_of
from labelcert.labelnoise.result import AccuracyUnderNoise, Noise

__all__ = ["AccuracyUnderNoise", "Noise", "noise", "noise_linear", "noise_of"]
