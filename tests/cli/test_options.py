from __future__ import annotations

import click

from labelcert.cli.options import OptionGroup, in_options, option


def test_what_is_chosen_in_words() -> None:
    group = OptionGroup("Nodes", option("--seed", int, default=0), option("--inductive", bool))
    assert group.words({"seed": 3, "inductive": True}) == ["--seed 3", "--inductive"]
    assert group.words({"seed": 0, "inductive": False}) == []


def test_messages_in_the_words_of_the_command_line() -> None:
    assert in_options("max_flips=2 would fit", [click.Option(["--max-flips"])]) == "--max-flips 2 would fit"
