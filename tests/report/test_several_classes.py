"""Pictures and tables about more than two classes."""

from __future__ import annotations

import numpy as np
from tests.helpers.problems import blobs

from labelcert import Threat, certify
from labelcert.report.pictures import radius_figure, ratio_figure, takeover_figure
from labelcert.report.tables import takeover_table

NAMES = np.array(["ant", "bee", "cat", "dog"])


def test_pictures_and_tables() -> None:
    K, y, rows = blobs(12, 30)
    cert = certify(K, NAMES[y], rows, 5.0, max_flips=2)
    assert takeover_table(cert).row_count == 4
    assert takeover_figure(cert, flips=1).axes[0].get_ylabel() == "predicted (nodes)"
    nothing = certify(np.eye(3), ["x", "y", "z"], np.eye(3), 1.0, threat=Threat(trusted=[True] * 3))
    takeover_figure(nothing, title="nothing changes")
    ratio_figure([("a", cert)])
    radius_figure([("a", cert)])
