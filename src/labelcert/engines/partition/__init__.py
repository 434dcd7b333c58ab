"""Ensembles whose members are trained on parts of the labels: tables of each part, and what combines them."""
