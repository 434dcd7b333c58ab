"""Partition aggregation (Levine & Feizi 2021): votes of models on parts of the labels, counted from outside."""

from __future__ import annotations

from labelcert.baselines.proving import Asked, Proved
from labelcert.certification.partition import check_parts, divide
from labelcert.engines.partition.engine import black_box_radii
from labelcert.engines.partition.ensemble import Votes


def partition_votes(asked: Asked, *, parts: int = 30) -> Proved:
    """Lower ends of the radii of the ensemble's votes: each changed label may turn the vote of its part.

    Parameters
    ----------
    asked : Asked
    parts : int
        Number of parts. The labels are dealt out as by :func:`labelcert.certify_partition`.
    """
    part_of = check_parts(asked.problem, parts, asked.seed, asked.names)
    problem, own = divide(asked.problem, part_of)
    votes = Votes(problem, own)
    return Proved(votes, black_box_radii(votes), {"parts": int(parts), "part_of": part_of.tolist()})
