"""A crowd that labels music: which predictions dishonest annotators change, and what would help.

``python -m benchmarks.annotators FOLDER`` prints every figure of the page "Annotators"; the folder holds
``songs.csv.gz`` and ``votes.csv.gz``. True genres are looked at for accuracies alone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labelcert import Certificate, Recheck, Threat, Votes, certify, recheck

RIDGE = 100.0
"""λ of the ridge regression; ``C = 1/(2λ)``."""


class Songs:
    """Songs with standardised features, and votes on those for training."""

    def __init__(self, folder: Path) -> None:
        songs = pd.read_csv(folder / "songs.csv.gz")
        self.votes = pd.read_csv(folder / "votes.csv.gz")
        train, test = songs[songs.split == "train"], songs[songs.split == "test"]
        X, T = (part.filter(like="feature").to_numpy() for part in (train, test))
        mean, spread = X.mean(axis=0), X.std(axis=0)
        spread[spread == 0] = 1.0
        self.X, self.T = (X - mean) / spread, (T - mean) / spread
        self.items = train.item.tolist()
        self.genre, self.test_genre = train.genre.to_numpy(), test.genre.to_numpy()

    def certify(self, votes: Votes, max_flips: int, **limits: Any) -> Certificate:
        """Ridge regression on the labels that the votes make."""
        K, rows = self.X @ self.X.T, self.T @ self.X.T
        threat = Threat(votes=votes, **limits)
        return certify(K, votes.labels, rows, 0.5 / RIDGE, loss="square", threat=threat, max_flips=max_flips)

    def recheck(self, votes: Votes, **asked: Any) -> Recheck:
        """Whom to audit, or what to annotate again."""
        K, rows = self.X @ self.X.T, self.T @ self.X.T
        threat = Threat(votes=votes)
        return recheck(K, votes.labels, rows, 0.5 / RIDGE, loss="square", threat=threat, **asked)

    def accuracy(self, cert: Certificate) -> float:
        """On the songs for testing, against their true genres."""
        return float(np.mean(cert.predictions == self.test_genre))


def _say(text: str, cert: Certificate, started: float) -> None:
    shares = ", ".join(f"{cert.certified_ratio(flips=b):.0%}" for b in range(1, cert.max_flips + 1))
    seconds = time.process_time() - started
    print(f"{text}: {shares} survive 1 to {cert.max_flips} ({cert.settled.mean():.0%} settled, {seconds:.1f} CPU s)")


def _rules(songs: Songs) -> dict[str, Votes]:
    """Ways to make labels of votes, none of which looks at true genres."""
    table, items = songs.votes, songs.items
    counts = table.annotator.value_counts()
    majority = Votes(table, items=items)
    label = dict(zip(items, majority.labels, strict=True))
    agree = (table.label == table.item.map(label)).groupby(table.annotator).mean()
    capped = {who: max(0.01, round(min(1.0, 60 / counts[who]), 2)) for who in majority.annotators}
    weighted = {who: max(0.01, round(float(agree[who]) ** 2, 2)) for who in majority.annotators}
    return {
        "majority": majority,
        "no annotator counts more than 60 votes": Votes(table, items=items, weights=capped),
        "votes weighted by agreement with the majority, squared": Votes(table, items=items, weights=weighted),
    }


def main(folder: Path) -> None:
    """Print all figures."""
    songs = Songs(folder)
    votes = Votes(songs.votes, items=songs.items)
    truth = dict(zip(songs.items, songs.genre, strict=True))
    right_votes = float(np.mean(songs.votes.label == songs.votes.item.map(truth)))
    print(f"{len(songs.votes)} votes of {len(votes.annotators)} annotators, {right_votes:.0%} right")
    tops = songs.votes.groupby("item").label.agg(lambda own: set(own.mode())).reindex(songs.items)
    among = np.array([genre in top for genre, top in zip(songs.genre, tops, strict=True)])
    alone = np.array([len(top) == 1 for top in tops])
    print(
        f"majority, ties to the first label: {np.mean(votes.labels == songs.genre):.0%} right; {np.mean(among):.0%} if "
        f"every tie counts as right; {np.mean(among[alone]):.0%} of the {np.mean(alone):.0%} without ties"
    )
    for k in (1, 2, 3):
        started = time.process_time()
        cert = songs.certify(votes, k)
        _say(f"everything, {k} annotators", cert, started)
    print(f"accuracy {songs.accuracy(cert):.0%}")
    print(cert.annotators().head(12).drop(columns="trusted").to_string())
    best = cert.audit(12)
    by_votes = cert.annotators().sort_values("votes", ascending=False).index.tolist()
    rng = np.random.default_rng(0)
    draws = [cert.audit(order=rng.permutation(by_votes)[:12].tolist()).share.to_numpy() for _ in range(200)]
    print(f"audited {', '.join(best.index[:3])}: {best.share.iloc[2]:.0%} survive, twelve: {best.share.iloc[11]:.0%}")
    volume = cert.audit(order=by_votes[:12]).share
    print(f"the busiest three: {volume.iloc[2]:.0%}, twelve: {volume.iloc[11]:.0%}")
    print(f"at random (200 draws) three: {np.mean(draws, axis=0)[2]:.0%}, twelve: {np.mean(draws, axis=0)[11]:.0%}")
    counts = songs.votes.groupby("item").size().reindex(songs.items).to_numpy()
    for few in (1, 2, 3):
        started = time.process_time()
        _say(f"the {int(np.sum(counts <= few))} songs with at most {few} votes verified",
             songs.certify(votes, 2, trusted=counts <= few), started)  # fmt: skip
    for ask in ({"audit": 3}, {"audit": 12}, {"confirm": 216}, {"confirm": 307}):
        started = time.process_time()
        found = songs.recheck(votes, flips=1, **ask)
        says = f"{found.after[-1]:.0%} survive 1; {found.verdict} ({time.process_time() - started:.1f} CPU s)"
        print(f"recheck, {ask}: {', '.join(map(str, found.names[:3]))}, ...: {says}")
    for most in (5, 10, 20):
        started = time.process_time()
        _say(f"at most {most} wrong votes each", songs.certify(votes, 3, wrong_votes=most), started)
    for name, rule in _rules(songs).items():
        started = time.process_time()
        cert = songs.certify(rule, 1)
        right = float(np.mean(rule.labels == songs.genre))
        best = ", ".join(f"{share:.0%}" for share in cert.audit(12).share.iloc[[2, 11]])
        _say(f"{name}: labels {right:.0%} right, accuracy {songs.accuracy(cert):.0%}, {best} after 3, 12 audits",
             cert, started)  # fmt: skip
    for each in (3, 5, 7):
        started = time.process_time()
        planned = Votes.planned(votes.labels, each=each, most=60, right=right_votes)
        cert = songs.certify(planned, 2)
        _say(f"planned, {each} votes a song, at most 60 each, accuracy {songs.accuracy(cert):.0%}", cert, started)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "datasets" / "music")
