"""The command line.

Exit codes: 0 done, 1 a check failed, 2 the request is wrong, 3 the work is too large or data is unavailable,
130 interrupted (with what was proved so far printed).
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from typing import Any

import click

from labelcert._version import __version__
from labelcert.certificate.run_record import command_line
from labelcert.cli.command_certify import certify_command
from labelcert.cli.command_harden import harden_command
from labelcert.cli.command_noise import noise_command
from labelcert.cli.command_recheck import recheck_command
from labelcert.cli.command_regression import regression_command
from labelcert.cli.exits import EXIT_INTERRUPTED, EXIT_UNAVAILABLE, EXIT_WRONG
from labelcert.cli.options import GroupOfCommands
from labelcert.cli.printing import abandon, prepare_streams, say
from labelcert.cli.reporting import report_files
from labelcert.cli.study_commands import study_group
from labelcert.cli.without_graph import WITHOUT_GRAPH
from labelcert.errors import DataUnavailable, LabelcertError, WorkTooLarge
from labelcert.extensions import COMMANDS, load_extensions
from labelcert.signals import ending_in_order

EXAMPLES = """\b
Examples:
  labelcert certify karate --model gcn
  labelcert certify cora-ml-b --model gcn --model sgc --seed 0 --out results
  labelcert certify --edges edges.csv --labels labels.csv --max-flips 3
  labelcert certify karate --model gcn --report report.html
  labelcert recheck karate --flips 1 --confirm 2
  labelcert noise karate --wrong 0.05
  labelcert regression prices.csv --target price --change 50
  labelcert harden karate --flips 1
  labelcert reproduce cora-ml-b --out results
  labelcert study run my-study.toml
  labelcert datasets

\b
Exit codes: 0 done, 1 a check failed, 2 the request is wrong, 3 the work is
too large or data is unavailable, 130 interrupted."""


class _Commands(GroupOfCommands):
    """A group that extensions add to. Its reader may go away (`labelcert datasets | head`), which is no failure."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        load_extensions(COMMANDS)
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        load_extensions(COMMANDS)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            abandon("stdout")  # or what is left in the buffer would raise again at exit
            return None
        return result


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXAMPLES,
)
@click.version_option(__version__, prog_name="labelcert")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Exact certificates: which predictions survive corrupted training labels."""
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())


for command in (
    certify_command,
    recheck_command,
    noise_command,
    regression_command,
    harden_command,
    study_group,
    report_files,
    *WITHOUT_GRAPH,
):
    cli.add_command(command)


def main() -> None:
    """Entry point: errors in one line, without a traceback."""
    prepare_streams()
    command_line.set(shlex.join(["labelcert", *sys.argv[1:]]))
    with ending_in_order():
        code = _run()
        for name in ("stdout", "stderr"):
            try:
                getattr(sys, name).flush()
            except OSError as error:  # a full disk, say
                abandon(name)
                if name == "stdout" and not isinstance(error, BrokenPipeError):
                    code = code or _refuse(f"standard output cannot be written: {error}", EXIT_WRONG)
    sys.exit(code)


def _run() -> int:
    """The exit code of the command."""
    try:
        code = cli(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _refuse("interrupted", EXIT_INTERRUPTED, whose="")
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            abandon("stdout")
            return 0
        return error.code if isinstance(error.code, int) else 0
    except click.ClickException as error:
        return _refuse(error.format_message(), EXIT_WRONG)
    except LabelcertError as error:
        return _refuse(
            str(error), EXIT_UNAVAILABLE if isinstance(error, WorkTooLarge | DataUnavailable) else EXIT_WRONG
        )
    except (OSError, UnicodeError) as error:
        return _refuse(f"a file cannot be read or written: {error}", EXIT_WRONG)
    except MemoryError:
        return _refuse("there is not enough memory for this", EXIT_UNAVAILABLE)
    return code if isinstance(code, int) else 0


def _refuse(message: str, code: int, whose: str = "labelcert: ") -> int:
    """Say what is wrong, one line for each problem, without needless blanks."""
    lines = [" ".join(line.split()) for line in message.splitlines()]
    with contextlib.suppress(OSError):  # nobody listens
        say(whose + "\n  ".join(lines), error=True)
    return code
