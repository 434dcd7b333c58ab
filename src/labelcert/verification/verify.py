"""``verify``: check a certificate without the code that made it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from labelcert.certificate import Certificate
from labelcert.errors import InvalidInput
from labelcert.verification import record, shift
from labelcert.verification.ballot_checker import BallotChecker
from labelcert.verification.checker import Checker
from labelcert.verification.crowd_checker import CrowdChecker, CrowdVoteChecker
from labelcert.verification.error_checker import ErrorChecker
from labelcert.verification.left_checker import LeftChecker
from labelcert.verification.pacing import OutOfTime, Pace
from labelcert.verification.statement import LOSSES, VOTES, Statement
from labelcert.verification.verdict import CheckStatus, Verification
from labelcert.verification.vote_checker import VoteChecker


def verify(
    cert: Certificate,
    K_train: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    K_test: npt.ArrayLike | None = None,
    *,
    H: object = None,
    X_train: npt.ArrayLike | None = None,
    X_test: npt.ArrayLike | None = None,
    votes: npt.ArrayLike | None = None,
    kernel_error: npt.ArrayLike | None = None,
    test_kernel_error: npt.ArrayLike | None = None,
    share: float | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Verification:
    """Check a certificate without the code that made it, in exact arithmetic or with proved error bounds.

    The problem must be the one that the certificate names by its hash. Every witness is admissible, and training from
    scratch on it changes what it should. Every lower end of a radius and every upper end of the curve has a proof,
    which is evaluated again: closed forms where scores are linear in the labels, the stored tree of a search with its
    multipliers, and a walk through all admissible relabellings otherwise. What nobody can check (names, times, which
    engine ran) is listed as only stated.

    Parameters
    ----------
    cert : Certificate
    K_train, labels, K_test : arrays, optional
        As they were given to :func:`labelcert.certify`; a certificate that was saved with ``problem=True`` has them.
    H : (n, m) array, sparse matrix or iterable of blocks of rows, optional
        Of a certificate of :func:`labelcert.certify_linear`, as it was given there; kept in memory as a whole.
    X_train, X_test : (m, d) and (n, d) arrays, optional
        Of a linear model that was trained on its features: as the model sees them, with the constant feature of a
        regularised intercept.
    votes : (n, k) or (n, k, K) array, optional
        Of a certificate of :func:`labelcert.certify_votes`: what the models say, as in ``part_votes``, where somebody
        trained them again. By default those that the certificate holds are counted.
    kernel_error, test_kernel_error : number or arrays, optional
        As they were given to :func:`labelcert.certify`: some kernels are drawn within these errors, which proves
        nothing about all of them. Without them, lower ends are checked for the given kernel alone.
    share : float, optional
        Look only at this share of the relabellings, drawn at random, instead of walking through all: no proof.
    seed : int
        For the random share.
    time_limit : float, optional
        Seconds for all of it; what is left then is not checked.
    report : callable
        Told each second what is going on, and how many claims are checked.

    Returns
    -------
    Verification

    Examples
    --------
    >>> import labelcert
    >>> K, labels, rows = [[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]]
    >>> cert = labelcert.certify(K, labels, rows, C=1.0)
    >>> labelcert.verify(cert, K, labels, rows).summary
    'accepted: everything that the certificate claims is proved'
    >>> labelcert.verify(cert, K, ["dog", "cat"], rows).accepted
    False
    """
    if share is not None and not 0.0 < share <= 1.0:
        raise InvalidInput(f"share must be above 0 and at most 1, got {share!r}")
    if time_limit is not None and not 0 < time_limit < float("inf"):
        raise InvalidInput(f"time_limit must be a positive number of seconds, got {time_limit!r}")
    if cert.run.loss not in LOSSES:
        raise InvalidInput(f"verify knows the losses {', '.join(LOSSES)}, and not loss={cert.run.loss!r}")
    if cert.run.weights:
        raise InvalidInput("verify does not train models whose labels have weights")
    pace = Pace(report, time_limit)
    pace.tell("reading the problem")
    if (X_train is None) != (X_test is None):
        raise InvalidInput("pass both of X_train and X_test, or none of them")
    features = None if X_train is None or X_test is None else (X_train, X_test)
    out = Verification(stated=record.stated(cert))
    _untouched(cert, out)
    if record.claims_nothing(cert):
        out.add("claims", CheckStatus.NOT_CHECKED, "the run was over before the first training: it claims nothing")
    else:
        statement = Statement.of(cert, K_train, labels, K_test, H, features, votes)
        if out.accepted:
            _about(cert, statement, out)
    if out.accepted and not record.claims_nothing(cert):
        checker = _kind(statement, cert)(cert, statement, out, pace, share, np.random.default_rng(seed))
        if isinstance(checker, ErrorChecker):
            checker.told(kernel_error, test_kernel_error)
        _carry_out(checker, out, pace)
        out.counted = pace.counted
    if out.stated:
        out.add("record", CheckStatus.STATED, f"not checked: {', '.join(out.stated)}")
    return out


def _kind(statement: Statement, cert: Certificate) -> type[Checker]:
    """Who checks such a certificate."""
    if cert.run.kernel_error_sha256:
        return ErrorChecker
    if statement.ballots is not None:
        return BallotChecker
    if statement.crowd:
        return CrowdVoteChecker if statement.combine == VOTES else CrowdChecker
    if statement.removes:
        return LeftChecker
    return VoteChecker if statement.combine == VOTES else Checker


def _untouched(cert: Certificate, out: Verification) -> None:
    """Whether it is the certificate that was made."""
    out.require(
        "contents",
        cert.checksum == cert.computed_checksum(),
        "the numbers match their checksum",
        "the certificate's numbers do not match its checksum: something was changed",
    )


def _about(cert: Certificate, statement: Statement, out: Verification) -> None:
    """Whether it is about this problem, and does not contradict itself."""
    added = f", with {statement.shift:g} on the diagonal" if statement.shift else ""
    out.require(
        "problem",
        _same_problem(cert, statement),
        f"kernels, labels, threat, C and loss have the hash {cert.run.problem_sha256[:12]}…{added}",
        f"their hash is {statement.digest()[:12]}…, the certificate names {cert.run.problem_sha256[:12]}…",
    )
    if not out.accepted:
        return
    for wrong in (_shift_wrong(statement), *record.contradictions(cert, statement)):
        if wrong:
            out.add("record", CheckStatus.WRONG, wrong)


def _shift_wrong(statement: Statement) -> str:
    """What is wrong with what was added to the diagonal; of an ensemble, to that of some part."""
    if statement.shift == 0.0:
        return ""
    found = []
    for part in statement.blocks:
        given = statement.K_train[np.ix_(part, part)] - statement.shift * np.eye(part.size)
        rows = statement.K_test[:, part]
        found.append(shift.wrong(given, rows, statement.shift, rounded=statement.from_file))
    return "" if "" in found else found[0]


def _carry_out(checker: Checker, out: Verification, pace: Pace) -> None:
    """All steps, until something is wrong, time is over, or somebody presses Ctrl-C."""
    steps = checker.steps
    for k, (_, step) in enumerate(steps):
        why = "it rests on what is not checked above"
        try:
            step()
        except (OutOfTime, KeyboardInterrupt) as end:
            out.interrupted = isinstance(end, KeyboardInterrupt)
            when = "until it was interrupted" if out.interrupted else "within the time limit"
            why, checker.stuck = f"{pace.counted} {when}; the rest is not checked", True
        if not out.accepted:
            return
        if checker.stuck:
            known = {check.what for check in out.checks}
            for what in [name for names, _ in steps[k:] for name in names if name not in known]:
                out.add(what, CheckStatus.NOT_CHECKED, why)
            return


def _same_problem(cert: Certificate, statement: Statement) -> bool:
    return bool(
        statement.digest() == cert.run.problem_sha256
        and np.array_equal(statement.classes, cert.classes)
        and np.array_equal(statement.classes[statement.codes], cert.labels)
        and statement.never == cert.never
        and statement.n == cert.n_test
        and 0 <= statement.budget < statement.never
    )
