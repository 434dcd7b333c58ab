"""Scores that are linear in the labels: radii by sorting, good attacks, and the curve by counting."""
