"""Partition aggregation (Levine & Feizi 2021): votes of models on parts of the labels, counted from outside."""

from __future__ import annotations

from typing import cast

from labelcert.baselines.proving import Proved
from labelcert.engines.partition.engine import DealtLabels, black_box_radii
from labelcert.engines.partition.ensemble import Votes
from labelcert.problem import Problem


def partition_votes(problem: Problem, *, parts: int = 30) -> Proved:
    """Lower ends of the radii of the ensemble's votes: each changed label may turn the vote of its part.

    Labels are dealt out as by :func:`labelcert.certify_partition`.
    """
    dealt = cast(DealtLabels, problem.by)
    votes = Votes(problem, dealt.parts)
    return Proved(votes, black_box_radii(votes), {"parts": int(parts), "part_of": dealt.part_of.tolist()})
