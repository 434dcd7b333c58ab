"""Enumeration of models that are trained on all classes at once: every relabelling is a training of its own."""
