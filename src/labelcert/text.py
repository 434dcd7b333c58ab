"""Names that somebody else chose, as text that is only ever read."""

from __future__ import annotations

import codecs
import decimal
import math
import re
import unicodedata

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters, which terminals obey
    "\u2028\u2029"  # line and paragraph separators
    "\u202a-\u202e\u2066-\u2069"  # characters that turn the direction of what follows
    "\ud800-\udfff]"  # halves of characters, which no file can hold
)
_SIGNS = {
    "→": "->", "≥": ">=", "≤": "<=", "…": "...", "–": "-", "—": "-", "·": ".", "±": "+-", "×": "x", "∞": "inf",
    "‖": "||", "−": "-", "“": '"', "”": '"', "’": "'", "α": "alpha", "β": "beta", "ε": "eps", "λ": "lambda",
    "█": "#", "▒": "+", "░": ".",
}  # fmt: skip


def printable(text: str) -> str:
    r"""The text with control characters written out, so that it cannot steer a terminal or break a file.

    Examples
    --------
    >>> print(printable("red \x1b[31m"), printable("two\nlines"))
    red \x1b[31m two\nlines
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def per_cent(share: float, *, up: bool = False) -> str:
    """A share in per cent, rounded to the safe side: what is proved to survive down, what may be lost ``up``.

    Examples
    --------
    >>> per_cent(12 / 26), per_cent(14 / 26, up=True), per_cent(0.29), per_cent(1 - 0.71)
    ('46.1', '53.9', '29.0', '29.0')
    """
    exact = 1000.0 * share
    whole = math.ceil(exact - 1e-9) if up else math.floor(exact + 1e-9)
    return f"{whole / 10:.1f}"


def between(low: float, high: float, sign: str = "", *, up: bool = False) -> str:
    """Two ends of a share in per cent, or one where they agree; that is rounded ``up`` where lower is better.

    Examples
    --------
    >>> between(12 / 26, 12 / 26), between(12 / 26, 20 / 26, " %")
    ('46.1', '46.1 % to 77.0 %')
    """
    one = f"{per_cent(low, up=up and high - low < 1e-12)}{sign}"
    return one if high - low < 1e-12 else f"{one} to {per_cent(high, up=True)}{sign}"


def four_digits(value: float, *, up: bool = False) -> str:
    """A number of any size, rounded down, or ``up``.

    Examples
    --------
    >>> four_digits(2 / 3), four_digits(2 / 3, up=True), four_digits(0.3), four_digits(-12345.6)
    ('0.6666', '0.6667', '0.3', '-1.235e+04')
    """
    rounding = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    return f"{float(decimal.Context(prec=4, rounding=rounding).create_decimal(f'{value:.12g}')):.4g}"


def drawable(text: str) -> str:
    r"""The text for a picture, where dollar signs would otherwise stand around formulas.

    Examples
    --------
    >>> print(drawable("5$ to 7$"))
    5\$ to 7\$
    """
    return "\n".join(map(printable, text.split("\n"))).replace("$", r"\$")


def printable_json(text: str) -> str:
    r"""JSON with all control characters written out, for which it has a way of its own.

    Examples
    --------
    >>> print(printable_json('"\x9b"'))
    "\u009b"
    """
    return _UNSEEN.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def in_ascii(text: str) -> str:
    r"""The text for a terminal that knows no other signs.

    Examples
    --------
    >>> in_ascii("a → b, α ≥ 1, Zoë, 日")
    'a -> b, alpha >= 1, Zoe, \\u65e5'
    """
    return "".join(c if c.isascii() else _ascii_for(c) for c in text)


def _ascii_for(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or character.encode("unicode_escape", "surrogatepass").decode()


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return in_ascii(error.object[error.start : error.end]), error.end


READABLE = "labelcert.readable"
"""What a stream does with signs that it cannot write: it writes others that say the same."""

codecs.register_error(READABLE, _replaced)
