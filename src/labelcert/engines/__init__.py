"""Engines: each takes a question and returns findings. A new engine is one file and one line in the registry."""
