"""The options of all commands on graphs, in the groups in which the help shows them.

The value of an option of the adversary is read in `inputs`; those of a computation are passed on as they are.
"""

from __future__ import annotations

from pathlib import Path

import click

from labelcert.certificate.metric import NAMED
from labelcert.certification.places import DEVICES
from labelcert.cli.inputs import COLUMNS
from labelcert.cli.options import FILE, OptionGroup, option
from labelcert.cli.reporting import REPORT_OPTION
from labelcert.engines.control import SOLVERS
from labelcert.engines.registry import engine_names
from labelcert.losses import loss_names
from labelcert.models.activations import ACTIVATIONS
from labelcert.models.base import VARIANTS
from labelcert.models.convolutional import POOLINGS
from labelcert.models.poisoned import NORMS
from labelcert.models.propagation import NORMALIZATIONS
from labelcert.models.recipe import COMBINATIONS
from labelcert.models.selection import RULES

DEFAULT_FOLDER = Path("labelcert-out")

GRAPH_OPTIONS = OptionGroup(
    "Your tables and datasets",
    click.argument("name", required=False, metavar="[NAME or FILE]"),
    option("--edges", FILE, "Your edge list: CSV or Parquet with the columns source, target[, weight]."),
    option("--features", FILE, "Your feature table: node, then any columns [and label]."),
    option("--labels", FILE, "Your label table: node, label; empty or left out is unlabelled."),
    *(
        option(f"--{column}-column {alias}{column}", str, f"Name of the column {column}.", column)
        for column in COLUMNS
        for alias in ["--label " if column == "label" else ""]
    ),
    option("--columns", "LIST", "Features are these columns alone, whatever they hold; with commas."),
    option("--drop", "LIST", "Columns that are no features; with commas."),
    click.option(
        "--raw/--scaled",
        default=None,
        help="Take numbers as they are, and nothing else; or scale them in any case. [default: scaled where their "
        "spreads differ]",
    ),
    option("--missing", "WORD", 'A word in the column label that stands for no label; "" for none.', multiple=True),
    option("--edge-types", "LIST", "Only edges with one of these in the column type; with commas."),
    option("--directed", bool, "Edges of your tables have a direction."),
    option("--fix", bool, "Mend what is harmless in your tables: repeated edges, stray blanks."),
    option("--data-dir", FILE, "Folder with local copies of the datasets [LABELCERT_DATA_DIR]."),
    option(
        "--parameter -p parameters",
        "NAME=VALUE",
        "Parameter of the dataset, such as weighted=true or density=2.",
        multiple=True,
    ),
)

COMPARISON_OPTIONS = OptionGroup(
    "Models",
    option(
        "--model -m names",
        "MODEL",
        "See `labelcert models`; repeat to compare. [default: gcn; of a plain table: logistic]",
        multiple=True,
    ),
    option("--beside", "MODEL", "One more model to compare with, or none. [default: sgc beside gcn on karate]"),
)

MODEL_OPTIONS = OptionGroup(
    "Models",
    option("--C C", "NUMBER|cv", "Regularisation, or cv: cross-validation. [default: the paper's value, else cv]"),
    option("--rule", RULES, "How cross-validation chooses among similar C. [default: the paper's]"),
    option(
        "--loss", tuple(loss_names()), "What models are trained with: see `labelcert losses`.", "hinge", metavar="LOSS"
    ),
    option(
        "--intercept",
        bool,
        "An intercept that is not regularised, as in scikit-learn's LogisticRegression: with logistic, "
        "cross_entropy or square.",
    ),
    option("--depth", int, "Hidden layers."),
    option("--normalization", NORMALIZATIONS, "Of the graph convolution."),
    option("--activation", ACTIVATIONS),
    option("--filter", int, "Width of the CNN's windows, odd."),
    option(
        "--pooling", POOLINGS, "What follows the CNN's convolutions: a mean over pixels, or all of them side by side."
    ),
    option("--image", int, "Height, width and channels of the CNN's images. [default: square, one channel]", nargs=3),
    option("--alpha", float, "Teleport probability of APPNP and PPNP."),
    option("--skip-alpha", float, "Share of the input in GCN Skip-alpha."),
    option("--iterations", int, "Propagation steps of APPNP."),
    option("--neighbors", int, "Of knn. [default: 5]"),
    option("--gamma", float, "Inverse width of the Gaussian kernel."),
    click.option("--bias", is_flag=True, default=None, help="Add a constant to the linear kernel."),
    option("--edge-weight", float, "Weight of all edges before self-loops are added."),
    option("--variant", VARIANTS, "Exact kernels, or those of the published code."),
)

METRIC_OPTIONS = OptionGroup(
    "What is asked",
    option(
        "--metric metrics",
        NAMED,
        "Also the worst value of this metric at each budget, over all test nodes whose class is known; repeatable.",
        multiple=True,
    ),
    option("--positive", "CLASS", "The class that recall, precision and rates are about. [default: the second of two]"),
    option("--true-labels", FILE, "CSV with the columns node, label: classes of test nodes that the graph lacks."),
)

ENSEMBLE_OPTIONS = OptionGroup(
    "Models",
    option("--parts", int, "Train an ensemble: one model for each of this many parts of the labels."),
    option("--combine", COMBINATIONS, "How the parts' models decide: mean scores, or votes.", "mean"),
    option("--part-flips", int, "Largest attack on one part that is looked at. [default: all]"),
)

NODE_OPTIONS = OptionGroup(
    "Nodes",
    option("--seed", int, "Of random graphs, splits, cross-validation and parts.", 0),
    option("--per-class", int, "Training nodes per class of the paper's split (as many for validation)."),
    option("--labeled", "FILE|LIST", "Your labelled nodes: one per line, or with commas."),
    option(
        "--test",
        "all|collective|multi-class|FILE|LIST",
        "Test nodes; collective and multi-class are the paper's 50. For a plain table: another table, COLUMN=VALUE or "
        "rows. [default: all unlabelled nodes; for graphs of the paper also collective, or multi-class alone "
        "with more than two classes; a fifth of a plain table in which all rows have labels]",
    ),
    option("--inductive", bool, "Test nodes join the graph after training."),
)

BUDGET_OPTIONS = OptionGroup(
    "The adversary",
    option("--max-flips", int, "Largest budget. [default: all labels, or what takes about half a minute]"),
    option("--max-annotators", int, "The same where budgets count annotators."),
    option("--max-fraction", float, "Largest budget as a fraction of the labels."),
)

THREAT_OPTIONS = OptionGroup(
    "The adversary",
    option("--trusted", "FILE|LIST", "Labelled nodes whose labels cannot be changed."),
    option("--costs", FILE, "CSV with the columns node, cost: price of changing a label (1 where absent)."),
    option("--allow", '"A->B"', "Only labels A may be changed, into B; repeatable.", multiple=True),
    option("--groups", FILE, "CSV with the columns node, group: where each label comes from."),
    option(
        "--group-column",
        str,
        "Name of the column group, in that table or, without one, in your label table. [default: group]",
    ),
    option(
        "--group-budget group_budgets",
        "N|GROUP=N",
        "Most that may be spent in each group, or in one; repeatable.",
        multiple=True,
    ),
    option(
        "--votes",
        FILE,
        "CSV with the columns node, annotator, label: several votes for each label, which is their majority. Budgets "
        "then count annotators.",
    ),
    option(
        "--annotator-column",
        str,
        "Name of the column annotator, in that table or, without one, in your label table: who gave each label.",
    ),
    option("--removable", "all|FILE|LIST", "Labelled nodes whose labels may be removed, besides being changed."),
    option("--removal-only", bool, "Labels may be removed (all, or those of --removable), and none is changed."),
)

POISON_OPTIONS = OptionGroup(
    "The adversary",
    option(
        "--poison-features",
        "FILE|LIST|all|labeled|test|N%",
        "Nodes whose features may change, too, or which share of all, drawn at random.",
    ),
    option("--radius", float, "By how much the features of each may change; with --norm 0, how many entries."),
    option("--norm", NORMS, "In which norm; 0 counts entries that change by at most 1, as binary ones do.", "inf"),
    option("--backdoor", bool, "The features of each test node may change as well, one test node at a time."),
)

WORK_OPTIONS = OptionGroup(
    "How it is computed",
    option("--engine", tuple(engine_names()), "Who computes: see `labelcert engines`.", "auto", metavar="ENGINE"),
    option("--solver", SOLVERS, "Who solves the paper's mixed-integer programs; SCIP and Gurobi are extras.", "highs"),
    option("--trust-solver", bool, "Count what a solver claims (milp-paper) as proved."),
    option(
        "--node-time-limit",
        float,
        "Longest that a search may take for one node, or for one budget of the curve.",
        metavar="SECONDS",
    ),
    option("--collective/--no-collective", bool, "Whether the collective curve is wanted.", True),
    option(
        "--time-limit",
        float,
        "For each certificate, after its kernel; what is open then comes as intervals.",
        metavar="SECONDS",
    ),
    option("--margin", float, "Count a prediction as changed once its lead falls to this, not to zero.", 0.0),
    option(
        "--width",
        int,
        "Certify with the margins that networks of this width need, measured with one random flip (PyTorch).",
        metavar="UNITS",
    ),
    option("--workers", int, "Threads. [default: all cores]"),
    option(
        "--scheduler",
        "processes|ADDRESS",
        "Where enumeration and parts are computed: local processes, or a Dask cluster. [default: threads]",
    ),
    option(
        "--device",
        DEVICES,
        "Whether enumeration and parts are computed on a GPU; auto: where there is one and it pays off.",
        "auto",
    ),
)

RECHECK_WORK_OPTIONS = WORK_OPTIONS.some("time_limit", "workers")
HARDEN_WORK_OPTIONS = WORK_OPTIONS.some(
    *("device", "collective"),
    time_limit=option("--time-limit", float, "For everything; the best so far is told then.", 180.0, metavar="SECONDS"),
    workers=option("--workers", int, "Local processes. [default: one per core]"),
    scheduler=option("--scheduler", "ADDRESS", "Run on the Dask cluster with this scheduler."),
)

SHOWN = (
    option("--nodes limit", click.IntRange(min=0), "Show at most this many nodes. [default: 5]"),
    option("--all everything", bool, "Show every node, every budget, and what predictions become."),
)
"""How much of a certificate is printed."""

OUTPUT_OPTIONS = OptionGroup(
    "Output",
    option("--json as_json", bool, "Print one JSON object instead of tables."),
    option("--out", FILE, "Write certificates, tables and pictures into this folder.", metavar="FOLDER"),
    REPORT_OPTION,
    click.option(
        "--pictures/--no-pictures",
        default=None,
        help=f"Draw pictures, into ./{DEFAULT_FOLDER} without --out. [default: with --out alone]",
    ),
    option("--attack", int, "Budget of the attack in the picture of the graph.", 1, metavar="FLIPS"),
    *SHOWN,
    option("--quiet -q", bool, "No progress and no notes, only results."),
)
