from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.problems import gaussian

import labelcert


@pytest.fixture(scope="package")
def cert() -> labelcert.Certificate:
    K, y, rows = gaussian(10, 25)
    return labelcert.certify(K, np.array(["no", "yes"])[y], rows, 2.0)
