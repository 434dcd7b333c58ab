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

from labelcert import Certificate, Threat, Votes, certify

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

    def accuracy(self, cert: Certificate) -> float:
        """On the songs for testing, against their true genres."""
        return float(np.mean(cert.predictions == self.test_genre))


def _say(text: str, cert: Certificate, started: float) -> None:
    shares = ", ".join(f"{cert.certified_ratio(flips=b):.0%}" for b in range(1, cert.max_flips + 1))
    seconds = time.process_time() - started
    print(f"{text}: {shares} survive 1 to {cert.max_flips} ({cert.settled.mean():.0%} settled, {seconds:.1f} CPU s)")


def _planned(songs: Songs, labels: Any, votes_each: int, most: int, right: float, seed: int) -> Votes:
    """So many votes for each item, by annotators who give at most so many, each right with some probability."""
    rng = np.random.default_rng(seed)
    classes, m = np.unique(labels), len(songs.items)
    seats = np.arange(m * votes_each) % -(-m * votes_each // most)  # of one item, no annotator has two
    says = np.where(rng.random(seats.size) < right, np.repeat(labels, votes_each), rng.choice(classes, seats.size))
    items = np.repeat(songs.items, votes_each)
    return Votes(pd.DataFrame({"item": items, "annotator": seats, "label": says}), items=songs.items)


def main(folder: Path) -> None:
    """Print all figures."""
    songs = Songs(folder)
    votes = Votes(songs.votes, items=songs.items)
    truth = dict(zip(songs.items, songs.genre, strict=True))
    right = float(np.mean(songs.votes.label == songs.votes.item.map(truth)))
    print(f"{len(songs.votes)} votes of {len(votes.annotators)} annotators, {right:.0%} right")
    print(f"majority: {np.mean(votes.labels == songs.genre):.0%} right")
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
        cert = songs.certify(votes, 2, trusted=counts <= few)
        _say(f"the {int(np.sum(counts <= few))} songs with at most {few} votes verified", cert, started)
    for most in (5, 10, 20):
        started = time.process_time()
        _say(f"at most {most} wrong votes each", songs.certify(votes, 2, wrong_votes=most), started)
    for each in (3, 5, 7):
        started = time.process_time()
        planned = _planned(songs, votes.labels, each, 60, 0.56, seed=0)
        cert = songs.certify(planned, 2)
        _say(f"planned, {each} votes a song, at most 60 each, accuracy {songs.accuracy(cert):.0%}", cert, started)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "datasets" / "music")
