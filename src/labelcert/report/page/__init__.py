"""The page that shows certificates to people: one HTML file that is complete in itself."""

from labelcert.report.page.html import render
from labelcert.report.page.payload import Shown, certificates_page, warning

__all__ = ["Shown", "certificates_page", "render", "warning"]
