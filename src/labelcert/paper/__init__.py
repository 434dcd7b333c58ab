"""What only the paper's reproduction needs. It registers itself: nothing else in labelcert imports it."""

from labelcert.paper import (
    collapse_report,
    collapsing,
    milp,
    paper_reports,
    paper_settings,
    paper_studies,
    published_code,
)

__all__ = [
    "collapse_report",
    "collapsing",
    "milp",
    "paper_reports",
    "paper_settings",
    "paper_studies",
    "published_code",
]
