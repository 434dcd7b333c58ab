"""The way from a graph to certificates that the command line and studies share: choices, certificates, files."""

from labelcert.pipeline.certified_targets import CertifiedTargets, certificate_file, certify_targets, save_results
from labelcert.pipeline.choices import (
    COLLECTIVE,
    ROWS,
    Targets,
    choose_model,
    choose_split,
    choose_targets,
    known_options,
    model_options,
)

__all__ = ["COLLECTIVE", "ROWS", "CertifiedTargets", "Targets", "certificate_file", "certify_targets", "choose_model"]
__all__ += ["choose_split", "choose_targets", "known_options", "model_options", "save_results"]
