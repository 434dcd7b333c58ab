"""The model being certified: a bias-free kernel SVM, compiled, exact, and with proved error bounds."""

from labelcert.svm.training import train

__all__ = ["train"]
