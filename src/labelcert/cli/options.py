"""How options of commands are declared, grouped in the help, and named in error messages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from labelcert.errors import LabelcertError
from labelcert.losses import get_loss

FILE = click.Path(path_type=Path)

FIRST = (
    *("edges", "features", "labels", "names", "name_of_model", "C", "max_flips", "flips", "confirm", "until"),
    *("wrong", "trusted", "time_limit", "out", "report"),
)
"""The options that matter most, which are all that ``--help`` shows."""

EVERYTHING = "labelcert.help-all"
"""Whether the help shows all options."""

Decorator = Callable[[Any], Any]


def option(words: str, kind: Any, help: str | None = None, default: Any = None, **more: Any) -> Decorator:
    """An option whose default the help shows.

    ``words`` are its flags, and its name if that is another. ``kind`` is a type, ``bool`` for a flag, a tuple of
    choices, or a text that stands for any value in the help.
    """
    if isinstance(kind, tuple):
        more["type"] = click.Choice(kind)
    elif isinstance(kind, str):
        more["metavar"] = kind
    elif kind is not bool:
        more["type"] = kind
    elif "/" not in words:
        more["is_flag"] = True
    if default is not None:
        more |= {"default": default, "show_default": True}
    return click.option(*words.split(), help=help, **more)


class GroupedCommand(click.Command):
    """A command whose help shows the options that matter most, then all others in groups."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; errors speak of options where the package speaks of parameters."""
        try:
            if ctx.params.pop("intercept", False):
                ctx.params["loss"] = get_loss(ctx.params["loss"], intercept=True).name
            return super().invoke(ctx)
        except LabelcertError as error:
            error.args = (in_options(str(error), self.get_params(ctx)),)
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options into the help: those that matter most or, for ``--help-all``, every one of them."""
        sections: dict[str, list[tuple[str, str]]] = {"The options that matter most": []}
        everything = ctx.meta.get(EVERYTHING, False)
        for param in self.get_params(ctx):
            line = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if line is not None:
                first = param.name in FIRST
                if not (first or everything):
                    continue
                group = next(iter(sections)) if first else getattr(param, "group", "Other options")
                sections.setdefault(group, []).append(line)
        for heading, lines in sections.items():
            with formatter.section(heading):
                formatter.write_dl(lines)
        if not everything:
            formatter.write_paragraph()
            formatter.write_text(f"`{ctx.command_path} --help-all` shows all options.")


class GroupOfCommands(click.Group):
    """A group whose help shows the first sentence of each command, and all of that."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help."""
        known = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(limit=1000)) for name, one in known if one is not None])


def _show_everything(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[EVERYTHING] = True
        click.echo(ctx.get_help())
        ctx.exit()


HELP_ALL = click.option(
    "--help-all",
    is_flag=True,
    is_eager=True,
    hidden=True,  # the help names it in a sentence
    expose_value=False,
    callback=_show_everything,
    help="Show all options and exit.",
)


def in_options(message: str, params: Sequence[click.Parameter]) -> str:
    """A message of the package in the words of the command line: ``max_flips=2`` is ``--max-flips 2``."""
    for param in params:
        if not isinstance(param, click.Option) or param.name is None:
            continue
        named = (word for word in param.opts if word.lstrip("-").replace("-", "_") == param.name)
        flag = next(named, max(param.opts, key=len))
        names = {param.name, flag.lstrip("-").removesuffix("-column")} if flag.endswith("-column") else {param.name}
        for name in names:
            message = re.sub(rf"(?<![\w-]){name}=(True\b|\[\.\.\.\])", flag, message)
            message = re.sub(rf"(?<![\w-]){name}=(['\"]?)([\w.-]+)\1", rf"{flag} \2", message)
            message = re.sub(rf"(?<![\w-]){name}='([^']*)'", rf'{flag} "\1"', message)
            message = re.sub(rf"^{name}(?= must\b)", flag, message)
        if "_" in param.name:
            message = re.sub(rf"(?<![\w-]){param.name}(?![\w])", flag, message)
    return message


class OptionGroup:
    """Options that the help shows under one heading and in this order, as one decorator."""

    def __init__(self, heading: str, *options: Decorator) -> None:
        def holder() -> None:
            """Stand in for a command, on which click collects options."""

        for each in reversed(options):
            each(holder)
        self.heading = heading
        self.params: list[Any] = getattr(holder, "__click_params__", [])[::-1]
        for param in self.params:
            param.group = heading

    def __call__(self, command: Any) -> Any:
        """Give them to a command."""
        command.__click_params__ = [*getattr(command, "__click_params__", []), *reversed(self.params)]
        return command

    def some(self, *names: str, **others: Decorator) -> OptionGroup:
        """Some of these options, and others that stand in for those of their names, in the same order."""
        group = OptionGroup(self.heading, *others.values())
        new = {param.name: param for param in group.params}
        group.params = [new.get(p.name, p) for p in self.params if p.name in (*names, *others)]
        return group

    def chosen(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values that differ from their defaults, as keyword arguments."""
        values = {param.name: (given[param.name], param.default) for param in self.params}
        switches = {param.name for param in self.params if param.secondary_opts}
        return {
            name: value
            for name, (value, default) in values.items()
            if value not in (None, (), default) and (value is not False or default is True or name in switches)
        }

    def words(self, given: Mapping[str, Any]) -> list[str]:
        """What is chosen, as it is written on the command line."""
        words: list[str] = []
        chosen = self.chosen(given)
        for param in self.params:
            if param.name in chosen:
                flag, value = "" if param.param_type_name == "argument" else param.opts[0], chosen[param.name]
                values = value if param.multiple else [value]
                if value is False:
                    words.append(param.secondary_opts[0])
                    continue
                words += [flag] if value is True else [f"{flag} {shlex.quote(str(each))}".strip() for each in values]
        return words


def grouped(name: str, examples: str, *groups: OptionGroup) -> Callable[[Callable[..., None]], click.Command]:
    """A command with groups of options, and examples below its help."""

    def made(function: Callable[..., None]) -> click.Command:
        for group in reversed(groups):
            function = group(function)
        how = click.command(name, cls=GroupedCommand, epilog=examples, context_settings={"max_content_width": 110})
        return how(HELP_ALL(function))

    return made
