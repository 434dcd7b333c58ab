"""What only the paper's reproduction needs. It registers itself: nothing else in labelcert imports it."""

from labelcert.paper import milp, paper_reports, paper_settings, paper_studies, published_code

__all__ = ["milp", "paper_reports", "paper_settings", "paper_studies", "published_code"]
