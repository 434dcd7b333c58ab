from __future__ import annotations

import click

from labelcert.cli.options import OptionGroup, in_options, option
from labelcert.cli.printing import few


def test_what_is_chosen_in_words() -> None:
    group = OptionGroup("Nodes", option("--seed", int, default=0), option("--inductive", bool))
    assert group.words({"seed": 3, "inductive": True}) == ["--seed 3", "--inductive"]
    assert group.words({"seed": 0, "inductive": False}) == []


def test_messages_in_the_words_of_the_command_line() -> None:
    assert in_options("max_flips=2 would fit", [click.Option(["--max-flips"])]) == "--max-flips 2 would fit"


def test_some_budgets_of_many() -> None:
    assert few(3) == [0, 1, 2, 3]
    assert len(few(100)) == 21
