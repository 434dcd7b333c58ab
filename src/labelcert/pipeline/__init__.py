"""The way from a graph to certificates that the command line and studies share: choices, certificates, files."""

from labelcert.pipeline.choices import (
    ALL,
    COLLECTIVE,
    Choice,
    Targets,
    choose_model,
    choose_split,
    choose_targets,
    model_options,
)
from labelcert.pipeline.results import Certified, certificate_file, certify_targets, save_results

__all__ = [
    "ALL",
    "COLLECTIVE",
    "Certified",
    "Choice",
    "Targets",
    "certificate_file",
    "certify_targets",
    "choose_model",
    "choose_split",
    "choose_targets",
    "model_options",
    "save_results",
]
