"""Proofs of a search: trees of subtrees, and the multipliers whose bounds prune them.

They are data. A search writes them, a certificate carries them, and
:mod:`labelcert.verification.trees` evaluates them again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np

from labelcert.arrays import Values

KINDS = ("f4", "f8", "i4")
"""Types of arrays in proofs."""


MOST_FLOATS = 64_000_000
"""Most multipliers of single nodes that are kept: 256 MB."""

KEEPS = -1
"""In a tree: the part in which a label stays as it is."""


class Block(msgspec.Struct, frozen=True, eq=False):
    """K multipliers of one model, and how often their bounds were applied."""

    beta: Values
    """(K, m) multipliers of the ties ``f = Q z``."""
    price: Values
    """(K,) price of success, where only attacks that change one node are considered."""
    label: Values
    side: Values
    """(K,) a label whose side (0 kept, 1 flipped) is given; label -1: none."""
    end: Values
    """(K,) which end of its ranges the bound is about: 0 low and 1 high (of the margin), 2 least and 3 most (of the
    dual variable)."""
    empty: Values
    """(K,) 1: the bound is about nothing but whether any attack is left."""
    passes: int


class RangeProof(msgspec.Struct, frozen=True, eq=False):
    """Ranges of one model at one budget: a clean training, and blocks that tighten what follows from it."""

    shares: Values
    """(m,) dual variables of the clean training as shares of the cap."""
    blocks: list[Block]


class Step(msgspec.Struct, frozen=True, eq=False, tag=True):
    """One step inside a subtree."""

    kind: Literal["screen", "tighten"]
    """``"screen"``: a positive bound on the margin with a given side excludes that side (without one: everything).
    ``"tighten"``: bounds on ranges."""
    block: Block
    model: int = 0
    """Of two models, the predicted class's (0) or the rival's (1)."""

    @property
    def floats(self) -> int:
        """How many multipliers there are."""
        return int(self.block.beta.size)


class PairStep(msgspec.Struct, frozen=True, eq=False, tag=True):
    """Bounds on the margin between two models: moves with a positive one are of no use."""

    own: Values
    rival: Values
    """(m,) multipliers of the ties of both models."""

    @property
    def floats(self) -> int:
        """How many multipliers there are."""
        return int(self.own.size + self.rival.size)


class Excluded(msgspec.Struct, frozen=True, eq=False, tag=True):
    """E nodes, or pairs of nodes and rivals, that no attack of a subtree changes."""

    nodes: Values
    rivals: Values
    own: Values
    other: Values
    """(E, m) multipliers; of the one model, or of both."""

    @property
    def floats(self) -> int:
        """How many multipliers there are."""
        return int(self.own.size + self.other.size)


class Tree(msgspec.Struct, eq=False):
    """A subtree: steps, then nothing more (it is pruned), all its attacks retrained (a leaf), or parts."""

    steps: list[Step | PairStep | Excluded] = msgspec.field(default_factory=list)
    label: int = -1
    """The label (of all m) that parts differ in; -1 where there are none."""
    parts: dict[int, Tree] = msgspec.field(default_factory=dict)
    """From the class that the label becomes (``KEEPS``: it stays) to the part. Against one rival, a class that is
    neither the rival nor the predicted one stands for all of these."""
    leaf: bool = False

    @property
    def floats(self) -> int:
        """How many multipliers there are."""
        own = sum(step.floats for step in self.steps)
        return own + sum(part.floats for part in self.parts.values())


class RivalProof(msgspec.Struct, frozen=True, eq=False):
    """That no attack within a budget makes one class win one node."""

    budget: int
    tree: Tree


class Proofs(msgspec.Struct, eq=False):
    """Everything that a search proved."""

    ranges: dict[str, RangeProof] = msgspec.field(default_factory=dict)
    """From class and budget, as in ``"1 at 3"``, to the ranges of that model."""
    nodes: dict[int, dict[int, RivalProof]] = msgspec.field(default_factory=dict)
    """From test nodes to rivals to proofs: a node survives what all its rivals are excluded from."""
    curve: dict[int, Tree] = msgspec.field(default_factory=dict)
    """From budgets to trees: the most nodes that one attack changes."""
    row_exponents: dict[int, int] = msgspec.field(default_factory=dict)
    """From test nodes to e: multipliers are about the test row times ``2**e``."""

    def trimmed(self) -> Proofs:
        """Without what no proof refers to, and without the largest trees where they are too large together."""
        kept = [(proof.tree.floats, t, r) for t, rivals in self.nodes.items() for r, proof in rivals.items()]
        room, nodes = MOST_FLOATS, dict[int, dict[int, RivalProof]]()
        for size, t, r in sorted(kept):
            room -= size
            if room >= 0:
                nodes.setdefault(t, {})[r] = self.nodes[t][r]
        budgets = {proof.budget for rivals in nodes.values() for proof in rivals.values()} | set(self.curve)
        ranges = {key: proof for key, proof in self.ranges.items() if int(key.split()[-1]) in budgets}
        return Proofs(ranges=ranges, nodes=nodes, curve=self.curve, row_exponents=self.row_exponents)

    @staticmethod
    def key(c: int, budget: int) -> str:
        """Where the ranges of a class at a budget are."""
        return f"{c} at {budget}"

    def pack(self) -> tuple[bytes, dict[str, Values]]:
        """As a JSON text, and the arrays that it refers to, one of each type."""
        parts: dict[str, list[Values]] = {kind: [] for kind in KINDS}
        sizes = dict.fromkeys(KINDS, 0)

        def refer(array: Any) -> list[Any]:
            kind = array.dtype.str[1:]
            start, sizes[kind] = sizes[kind], sizes[kind] + array.size
            parts[kind].append(array.ravel())
            return [kind, start, list(array.shape)]

        text = msgspec.json.encode(self, enc_hook=refer)
        return text, {kind: np.concatenate([np.zeros(0, dtype=kind), *some]) for kind, some in parts.items()}

    @classmethod
    def unpack(cls, text: bytes, arrays: dict[str, Values]) -> Proofs:
        """From what :meth:`pack` returned; raises ``ValueError`` where something is missing."""

        def resolve(_: Any, reference: Any) -> Values:
            kind, start, shape = reference
            end = start + int(np.prod(shape, dtype=object))
            if start < 0 or end > arrays[kind].size:
                raise ValueError("a proof refers to numbers that are not there")
            return arrays[kind][start:end].reshape(shape)

        try:
            return msgspec.json.decode(text, type=cls, dec_hook=resolve)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None
