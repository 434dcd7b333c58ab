"""The options of all commands on graphs, in the groups in which the help shows them.

The value of an option of the adversary is read in `inputs`; those of a computation are passed on as they are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from labelcert.certification.places import DEVICES
from labelcert.cli.inputs import COLUMNS
from labelcert.cli.reporting import REPORT_OPTION
from labelcert.engines.control import SOLVERS
from labelcert.engines.registry import engine_names
from labelcert.errors import LabelcertError
from labelcert.losses import LOSSES, get_loss, loss_names
from labelcert.models import models
from labelcert.models.base import ACTIVATIONS, VARIANTS
from labelcert.models.propagation import NORMALIZATIONS
from labelcert.models.recipe import COMBINATIONS
from labelcert.models.selection import RULES

DEFAULT_FOLDER = Path("labelcert-out")


FIRST = (
    *(
        "edges",
        "features",
        "labels",
        "names",
        "name_of_model",
        "C",
        "max_flips",
        "flips",
        "confirm",
        "verify",
        "until",
        "trusted",
    ),
    *("time_limit", "out", "as_json"),
)
"""The options that matter most, which the help shows before all others."""


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
        """Write the options into the help."""
        sections: dict[str, list[tuple[str, str]]] = {"The options that matter most": []}
        for param in self.get_params(ctx):
            line = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if line is not None:
                first = param.name in FIRST
                group = next(iter(sections)) if first else getattr(param, "group", "Other options")
                sections.setdefault(group, []).append(line)
        for heading, lines in sections.items():
            with formatter.section(heading):
                formatter.write_dl(lines)


def in_options(message: str, params: Sequence[click.Parameter]) -> str:
    """A message of the package in the words of the command line: ``max_flips=2`` is ``--max-flips 2``.

    Examples
    --------
    >>> in_options("max_flips=2 would fit", [click.Option(["--max-flips"])])
    '--max-flips 2 would fit'
    """
    for param in params:
        if not isinstance(param, click.Option) or param.name is None:
            continue
        flag = max(param.opts, key=len)
        names = {param.name, flag.lstrip("-").removesuffix("-column")} if flag.endswith("-column") else {param.name}
        for name in names:
            message = re.sub(rf"(?<![\w-]){name}=(True\b|\[\.\.\.\])", flag, message)
            message = re.sub(rf"(?<![\w-]){name}=(['\"]?)([\w.-]+)\1", rf"{flag} \2", message)
            message = re.sub(rf"^{name}(?= must\b)", flag, message)
        if "_" in param.name:
            message = re.sub(rf"(?<![\w-]){param.name}(?![\w])", flag, message)
    return message


class OptionGroup:
    """Options that the help shows under one heading, as one decorator.

    Parameters
    ----------
    heading : str
    *options : decorators
        In the order in which the help shows them.
    """

    def __init__(self, heading: str, *options: Callable[[Any], Any]) -> None:
        def holder() -> None:
            """Stand in for a command, on which click collects options."""

        for option in reversed(options):
            option(holder)
        self.heading = heading
        self.params: list[Any] = getattr(holder, "__click_params__", [])[::-1]
        for param in self.params:
            param.group = heading

    def __call__(self, command: Any) -> Any:
        """Give them to a command."""
        command.__click_params__ = [*getattr(command, "__click_params__", []), *reversed(self.params)]
        return command

    def some(self, *names: str, **others: Callable[[Any], Any]) -> OptionGroup:
        """Some of these options, and others that stand in for those of their names, in the same order."""
        group = OptionGroup(self.heading, *others.values())
        new = {param.name: param for param in group.params}
        group.params = [new.get(p.name, p) for p in self.params if p.name in (*names, *others)]
        return group

    def chosen(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values that differ from their defaults, as keyword arguments."""
        values = {param.name: (given[param.name], param.default) for param in self.params}
        return {
            name: value
            for name, (value, default) in values.items()
            if value not in (None, (), default) and (value is not False or default is True)
        }

    def words(self, given: Mapping[str, Any]) -> list[str]:
        """What is chosen, as it is written on the command line.

        Examples
        --------
        >>> group = OptionGroup("Nodes", click.option("--seed", default=0), click.option("--inductive", is_flag=True))
        >>> group.words({"seed": 3, "inductive": True})
        ['--seed 3', '--inductive']
        """
        words: list[str] = []
        chosen = self.chosen(given)
        for param in self.params:
            if param.name in chosen:
                flag, value = "" if param.param_type_name == "argument" else param.opts[0], chosen[param.name]
                values = value if param.multiple else [value]
                words += [flag] if value is True else [f"{flag} {shlex.quote(str(each))}".strip() for each in values]
        return words


_FILE = click.Path(path_type=Path)
MODEL_OPTION_NAMES = tuple(dict.fromkeys(option for info in models() for option in info.options if option != "C"))

GRAPH_OPTIONS = OptionGroup(
    "Your tables and datasets",
    click.argument("name", required=False, metavar="[NAME or FILE.npz]"),
    click.option(
        "--edges", type=_FILE, help="Your edge list: CSV or Parquet with the columns source, target[, weight]."
    ),
    click.option("--features", type=_FILE, help="Your feature table: node, then numbers [and label]."),
    click.option("--labels", type=_FILE, help="Your label table: node, label; empty or left out is unlabelled."),
    *(
        click.option(
            f"--{column}-column", column, default=column, show_default=True, help=f"Name of the column {column}."
        )
        for column in COLUMNS
    ),
    click.option("--directed", is_flag=True, help="Edges of your tables have a direction."),
    click.option("--fix", is_flag=True, help="Mend what is harmless in your tables: repeated edges, stray blanks."),
    click.option("--data-dir", type=_FILE, help="Folder with local copies of the datasets [LABELCERT_DATA_DIR]."),
    click.option(
        "--parameter",
        "-p",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Parameter of the dataset, such as weighted=true or density=2.",
    ),
)

COMPARISON_OPTIONS = OptionGroup(
    "Models",
    click.option(
        "--model",
        "-m",
        "names",
        multiple=True,
        metavar="MODEL",
        help="See `labelcert models`; repeat to compare. [default: gcn]",
    ),
    click.option(
        "--beside", metavar="MODEL", help="One more model to compare with, or none. [default: sgc beside gcn on karate]"
    ),
)

MODEL_OPTIONS = OptionGroup(
    "Models",
    click.option(
        "--C",
        "C",
        metavar="NUMBER|cv",
        help="Regularisation, or cv: cross-validation. [default: the paper's value, else cv]",
    ),
    click.option(
        "--rule", type=click.Choice(RULES), help="How cross-validation chooses among similar C. [default: the paper's]"
    ),
    click.option(
        "--loss",
        type=click.Choice(loss_names()),
        default="hinge",
        show_default=True,
        help="; ".join(f"{name}: {LOSSES[name].formula}" for name in loss_names() if not LOSSES[name].intercept) + ".",
    ),
    click.option(
        "--intercept",
        is_flag=True,
        help="An intercept that is not regularised, as in scikit-learn's LogisticRegression: with logistic or "
        "cross_entropy.",
    ),
    click.option("--depth", type=int, help="Hidden layers."),
    click.option("--normalization", type=click.Choice(NORMALIZATIONS), help="Of the graph convolution."),
    click.option("--activation", type=click.Choice(ACTIVATIONS)),
    click.option("--alpha", type=float, help="Teleport probability of APPNP and PPNP."),
    click.option("--skip-alpha", type=float, help="Share of the input in GCN Skip-alpha."),
    click.option("--iterations", type=int, help="Propagation steps of APPNP."),
    click.option("--gamma", type=float, help="Inverse width of the Gaussian kernel."),
    click.option("--bias", is_flag=True, default=None, help="Add a constant to the linear kernel."),
    click.option("--edge-weight", type=float, help="Weight of all edges before self-loops are added."),
    click.option("--variant", type=click.Choice(VARIANTS), help="Exact kernels, or those of the published code."),
)

ENSEMBLE_OPTIONS = OptionGroup(
    "Models",
    click.option("--parts", type=int, help="Train an ensemble: one model for each of this many parts of the labels."),
    click.option(
        "--combine",
        type=click.Choice(COMBINATIONS),
        default="mean",
        show_default=True,
        help="How the parts' models decide: mean scores, or votes.",
    ),
    click.option("--part-flips", type=int, help="Largest attack on one part that is looked at. [default: all]"),
)

NODE_OPTIONS = OptionGroup(
    "Nodes",
    click.option("--seed", default=0, show_default=True, help="Of random graphs, splits, cross-validation and parts."),
    click.option(
        "--per-class", type=int, help="Training nodes per class of the paper's split (as many for validation)."
    ),
    click.option("--labeled", metavar="FILE|LIST", help="Your labelled nodes: one per line, or with commas."),
    click.option(
        "--test",
        metavar="all|collective|multi-class|FILE|LIST",
        help="Test nodes; collective and multi-class are the paper's 50. [default: all unlabelled nodes; for "
        "graphs of the paper also collective, or multi-class alone with more than two classes]",
    ),
    click.option("--inductive", is_flag=True, help="Test nodes join the graph after training."),
)

BUDGET_OPTIONS = OptionGroup(
    "The adversary",
    click.option(
        "--max-flips", type=int, help="Largest budget. [default: all labels, or what takes about half a minute]"
    ),
    click.option("--max-fraction", type=float, help="Largest budget as a fraction of the labels."),
)

THREAT_OPTIONS = OptionGroup(
    "The adversary",
    click.option("--trusted", metavar="FILE|LIST", help="Labelled nodes whose labels cannot be changed."),
    click.option(
        "--costs", type=_FILE, help="CSV with the columns node, cost: price of changing a label (1 where absent)."
    ),
    click.option("--allow", multiple=True, metavar='"A->B"', help="Only labels A may be changed, into B; repeatable."),
    click.option("--groups", type=_FILE, help="CSV with the columns node, group: where each label comes from."),
    click.option(
        "--group-column",
        help="Name of the column group, in that table or, without one, in your label table. [default: group]",
    ),
    click.option(
        "--group-budget",
        "group_budgets",
        multiple=True,
        metavar="N|GROUP=N",
        help="Most that may be spent in each group, or in one; repeatable.",
    ),
)

WORK_OPTIONS = OptionGroup(
    "How it is computed",
    click.option(
        "--engine",
        default="auto",
        show_default=True,
        type=click.Choice(engine_names()),
        help="How to compute certificates.",
    ),
    click.option(
        "--solver",
        type=click.Choice(SOLVERS),
        default="highs",
        show_default=True,
        help="Who solves the paper's mixed-integer programs; SCIP and Gurobi are extras.",
    ),
    click.option("--trust-solver", is_flag=True, help="Count what a solver claims (milp-paper) as proved."),
    click.option(
        "--node-time-limit",
        type=float,
        metavar="SECONDS",
        help="Longest that a search may take for one node, or for one budget of the curve.",
    ),
    click.option(
        "--collective/--no-collective", default=True, show_default=True, help="Whether the collective curve is wanted."
    ),
    click.option(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="For each certificate; what is open then comes as intervals.",
    ),
    click.option(
        "--margin",
        type=float,
        default=0.0,
        show_default=True,
        help="Count a prediction as changed once its lead falls to this, not to zero.",
    ),
    click.option(
        "--width",
        type=int,
        metavar="UNITS",
        help="Certify with the margins that networks of this width need, measured with one random flip (PyTorch).",
    ),
    click.option("--workers", type=int, help="Threads. [default: all cores]"),
    click.option(
        "--scheduler",
        metavar="processes|ADDRESS",
        help="Where enumeration and parts are computed: local processes, or a Dask cluster. [default: threads]",
    ),
    click.option(
        "--device",
        type=click.Choice(DEVICES),
        default="auto",
        show_default=True,
        help="Whether enumeration and parts are computed on a GPU; auto: where there is one and it pays off.",
    ),
)

RECHECK_WORK_OPTIONS = WORK_OPTIONS.some("time_limit", "workers")
HARDEN_WORK_OPTIONS = WORK_OPTIONS.some(
    "device",
    "collective",
    time_limit=click.option(
        "--time-limit", type=float, default=20.0, show_default=True, metavar="SECONDS", help="For each certificate."
    ),
    workers=click.option("--workers", type=int, help="Local processes. [default: one per core]"),
    scheduler=click.option("--scheduler", metavar="ADDRESS", help="Run on the Dask cluster with this scheduler."),
)

OUTPUT_OPTIONS = OptionGroup(
    "Output",
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."),
    click.option(
        "--out", type=_FILE, metavar="FOLDER", help="Write certificates, tables and pictures into this folder."
    ),
    REPORT_OPTION,
    click.option(
        "--pictures/--no-pictures",
        default=True,
        show_default=True,
        help=f"Draw pictures, into ./{DEFAULT_FOLDER} without --out.",
    ),
    click.option(
        "--attack",
        default=1,
        show_default=True,
        metavar="FLIPS",
        help="Budget of the attack in the picture of the graph.",
    ),
    click.option("--nodes", "limit", default=20, show_default=True, help="Show at most this many nodes."),
    click.option("--quiet", "-q", is_flag=True, help="No progress and no notes, only results."),
)
