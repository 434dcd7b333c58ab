"""What a model of a study may be certified with, instead of `labelcert.certify`.

Each entry is a function that takes the arrays as `labelcert.certify` does, with the keywords ``max_flips``, ``loss``,
``seed``, ``time_limit``, ``workers``, ``names`` and the model's ``using_options``, and returns a certificate. A further
registry is one more line in `USING`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from labelcert.attacks import ATTACKS, attack
from labelcert.baselines import BASELINES, certify_baseline
from labelcert.certificate import Certificate

CERTIFY = "certify"
"""What stands for `labelcert.certify` itself."""

ATTACK = "attack:"
"""What the names of attacks start with."""

USING: dict[str, Callable[..., Certificate]] = {
    **{name: partial(certify_baseline, using=name) for name in BASELINES},
    **{f"{ATTACK}{name}": partial(attack, using=name) for name in ATTACKS},
}

KERNELS: dict[str, Callable[..., Certificate]] = {}
"""What certifies kernels of a variant, instead of `labelcert.certify`; extensions fill it."""
