"""What a study is: a small TOML file, read into frozen objects.

A study crosses datasets, models, seeds and certificates, and reads the answers off at some budgets. Every mistake in
a file is reported with the file, the key and what was expected there.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from labelcert.errors import InvalidInput
from labelcert.graphs import dataset_info
from labelcert.models import model_from_name, models
from labelcert.models.base import VARIANTS
from labelcert.models.selection import RULES

PAPER, CROSS_VALIDATE = "paper", "cross-validate"
HYPERPARAMETERS = (PAPER, CROSS_VALIDATE)
KINDS = ("collective", "accuracy", "ratio")
"""Certified ratio of all nodes at once; certified accuracy and ratio of each node alone."""

TESTS = ("auto", "all", "collective", "multi-class")
ENGINES = ("auto", "closed-form", "enumerate", "milp", "milp-paper", "relaxed")
REPORTS = ("certified", "attack", "ranks", "plateau")
PAPER_BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0)

_TOP = (
    *("name", "title", "where", "note", "report", "compare"),
    *("datasets", "models", "certificates", "seeds", "budgets", "flips", "up_to"),
    *("hyperparameters", "rule", "variant", "inductive", "time_limit"),
)
_FILES = ("edges", "features", "labels")
_COLUMNS = ("source", "target", "weight", "node", "label_column")


@dataclass(frozen=True)
class DatasetSpec:
    """One graph of a study.

    Attributes
    ----------
    label : str
        What tables call it.
    name : str or None
        As in `load_dataset`; None for tables of one's own.
    parameters : mapping
        Of the dataset.
    files : mapping
        Paths of the tables ``edges``, ``features`` and ``labels``.
    columns : mapping
        Names of their columns.
    directed : bool
    per_class : int or None
        Training nodes per class of the paper's split.
    labeled, test : tuple of str or None
        Names of the user's own labelled and test nodes.
    models : mapping
        Options by name or label of a model, for this dataset alone.
    """

    label: str
    name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    directed: bool = False
    per_class: int | None = None
    labeled: tuple[str, ...] | None = None
    test: tuple[str, ...] | None = None
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelSpec:
    """One model of a study: its name, its label in tables, options that are fixed, and the largest budget."""

    label: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    C: float | str | None = None
    max_flips: int | None = None
    skip: bool = False

    def on(self, dataset: DatasetSpec) -> ModelSpec:
        """With the dataset's own options for this model."""
        own = {**dataset.models.get(self.name, {}), **dataset.models.get(self.label, {})}
        if not own:
            return self
        options = {k: v for k, v in own.items() if k not in ("C", "max_flips", "skip")}
        return replace(
            self,
            options=MappingProxyType({**self.options, **options}),
            C=own.get("C", self.C),
            max_flips=own.get("max_flips", self.max_flips),
            skip=own.get("skip", self.skip),
        )


@dataclass(frozen=True)
class CertificateSpec:
    """One kind of certificate: what is read off, by which engine it is proved, and on which test nodes."""

    kind: str
    engine: str = "auto"
    test: str = "auto"

    @property
    def label(self) -> str:
        """Distinct within a study.

        Examples
        --------
        >>> CertificateSpec("accuracy", "relaxed").label
        'relaxed accuracy'
        """
        engine = "" if self.engine == "auto" else f"{self.engine} "
        nodes = "" if self.test == "auto" else f" ({self.test})"
        return f"{engine}{self.kind}{nodes}"


@dataclass(frozen=True)
class Study:
    """A whole study.

    Attributes
    ----------
    name, title : str
    seeds : tuple of int
    budgets : tuple of float
        Fractions ε of the labels, ascending; empty where `flips` is given.
    flips : tuple of int
        Whole numbers of flips, ascending.
    up_to : float or None
        Certify up to this fraction, though fewer budgets are shown: studies that agree in it share certificates.
    datasets, models, certificates : tuples
    hyperparameters : {"paper", "cross-validate"}
    rule : {"best", "smallest"} or None
        Of the cross-validation; None: the paper's.
    variant : {"exact", "published"}
        Kernels, and the node order of random graphs.
    inductive : bool
    time_limit : float or None
        Seconds for each certificate; what is open then comes as intervals.
    report : str
        How results are shown, one of `REPORTS`.
    compare : tuple of str
        Published tables to stand beside.
    where : str
        The place in the paper.
    note : str
    """

    name: str
    title: str
    datasets: tuple[DatasetSpec, ...]
    models: tuple[ModelSpec, ...]
    certificates: tuple[CertificateSpec, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    budgets: tuple[float, ...] = PAPER_BUDGETS
    flips: tuple[int, ...] = ()
    up_to: float | None = None
    hyperparameters: str = PAPER
    rule: str | None = None
    variant: str = "exact"
    inductive: bool = False
    time_limit: float | None = None
    report: str = "certified"
    compare: tuple[str, ...] = ()
    where: str = ""
    note: str = ""

    def changed(
        self,
        *,
        seeds: Sequence[int] | None = None,
        variant: str | None = None,
        hyperparameters: str | None = None,
    ) -> Study:
        """The study with what the command line overrides."""
        study = self
        if seeds is not None:
            study = replace(study, seeds=tuple(seeds))
        if variant is not None:
            study = replace(study, variant=variant)
        if hyperparameters is not None:
            study = replace(study, hyperparameters=hyperparameters)
        return study


def read_study(path: Path) -> Study:
    """A study from its file.

    Raises
    ------
    InvalidInput
        The message names the file, the key and what was expected.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no study file {path}; `labelcert reproduce --list` names those of the paper"
        ) from None
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
    return parse_study(text, name=path.stem, file=str(path), folder=path.parent)


def parse_study(text: str, *, name: str, file: str = "study", folder: Path = Path()) -> Study:
    r"""A study from TOML text; relative paths of tables count from ``folder``.

    Examples
    --------
    >>> study = parse_study(
    ...     'seeds = [0]\nflips = [1, 2]\ncertificates = ["collective"]\n'
    ...     '[[datasets]]\nname = "karate"\n[[models]]\nname = "gcn"\n', name="mine"
    ... )
    >>> study.datasets[0].label, study.models[0].name, study.flips
    ('karate', 'gcn', (1, 2))
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{file} is not TOML: {error}") from None
    return _Reader(file, folder).study(raw, name)


class _Reader:
    """Reads values and says where a mistake is."""

    def __init__(self, file: str, folder: Path) -> None:
        self._file = file
        self._folder = folder

    def study(self, raw: Mapping[str, Any], name: str) -> Study:
        self._only(raw, _TOP, "")
        if "budgets" in raw and "flips" in raw:
            raise self._wrong("budgets", "either budgets (fractions) or flips (whole numbers), not both", "both")
        flips = tuple(sorted(set(self._list(raw, "flips", _whole, "whole numbers of at least 0", ()))))
        budgets = self._list(raw, "budgets", _fraction, "fractions between 0 and 1", () if flips else PAPER_BUDGETS)
        datasets = tuple(self._dataset(d, f"datasets[{k}]") for k, d in enumerate(self._tables(raw, "datasets")))
        the_models = tuple(self._model(m, f"models[{k}]") for k, m in enumerate(self._tables(raw, "models")))
        certificates = tuple(self._certificate(c, f"certificates[{k}]") for k, c in enumerate(self._certificates(raw)))
        for what, labels in (
            ("datasets", [d.label for d in datasets]),
            ("models", [m.label for m in the_models]),
            ("certificates", [c.label for c in certificates]),
        ):
            twice = next((label for label in labels if labels.count(label) > 1), None)
            if twice is not None:
                raise self._wrong(what, "distinct labels; give each a `label` of its own", f"{twice!r} twice")
        for k, dataset in enumerate(datasets):
            for model in dataset.models:
                if not any(model in (m.name, m.label) for m in the_models):
                    raise self._wrong(
                        f"datasets[{k}].models.{model}",
                        f"the name or label of a model of this study ({', '.join(m.label for m in the_models)})",
                        repr(model),
                    )
        return Study(
            name=self._text(raw, "name", name),
            title=self._text(raw, "title", name),
            datasets=datasets,
            models=the_models,
            certificates=certificates,
            seeds=self._list(raw, "seeds", _whole, "whole numbers of at least 0", (0, 1, 2, 3, 4)),
            budgets=tuple(sorted(set(budgets))),
            flips=flips,
            up_to=self._share(raw, "up_to"),
            hyperparameters=self._choice(raw, "hyperparameters", HYPERPARAMETERS, PAPER),
            rule=self._choice(raw, "rule", RULES, None),
            variant=self._choice(raw, "variant", VARIANTS, "exact"),
            inductive=self._flag(raw, "inductive"),
            time_limit=self._positive(raw, "time_limit", "a positive number of seconds"),
            report=self._choice(raw, "report", REPORTS, "certified"),
            compare=self._list(raw, "compare", _word, "names of published tables", ()),
            where=self._text(raw, "where", ""),
            note=self._text(raw, "note", ""),
        )

    def _dataset(self, raw: Mapping[str, Any], at: str) -> DatasetSpec:
        known = ["name", "label", "parameters", "per_class", "labeled", "test", "models", "directed"]
        self._only(raw, [*known, *_FILES, *_COLUMNS], at)
        own = [key for key in _FILES if key in raw]
        name = self._text(raw, "name", None, at)
        if (name is None) == (not own):
            raise self._wrong(at, "a `name`, or the tables `edges`, `features` and `labels` of one's own", _keys(raw))
        if name is not None:
            try:
                name = dataset_info(name).name
            except InvalidInput as error:
                raise InvalidInput(f"{self._file}, {at}.name: {error}") from None
            extra = next((key for key in ("directed", *_COLUMNS) if key in raw), None)
            if extra is not None:
                raise self._wrong(f"{at}.{extra}", "no such key for a dataset by name", repr(raw[extra]))
        if own == ["labels"]:
            raise self._wrong(at, "an edge list or a feature table beside `labels`", "labels alone")
        files = {}
        for key in own:
            path = self._folder / str(self._text(raw, key, None, at))
            if not path.is_file():
                raise self._wrong(f"{at}.{key}", "the path of a table, counted from the study file", f"no file {path}")
            files[key] = str(path)
        parameters = self._mapping(raw, "parameters", at)
        overrides = self._mapping(raw, "models", at)
        for model, options in overrides.items():
            if not isinstance(options, dict):
                raise self._wrong(f"{at}.models.{model}", "a table of options", repr(options))
        labeled = self._list(raw, "labeled", _name, "names of nodes", None, at)
        if labeled is not None and "per_class" in raw:
            raise self._wrong(f"{at}.labeled", "either labeled or per_class, not both", "both")
        per_class = raw.get("per_class")
        if per_class is not None and (_whole(per_class) is None or per_class < 1):
            raise self._wrong(f"{at}.per_class", "a whole number of at least 1", repr(per_class))
        main = files.get("edges", files.get("features"))
        default = name if name is not None else Path(str(main)).name
        return DatasetSpec(
            label=str(self._text(raw, "label", default, at)),
            name=name,
            parameters=MappingProxyType(parameters),
            files=MappingProxyType(files),
            columns=MappingProxyType({k.removesuffix("_column"): str(raw[k]) for k in _COLUMNS if k in raw}),
            directed=self._flag(raw, "directed", at),
            per_class=per_class,
            labeled=labeled,
            test=self._list(raw, "test", _name, "names of nodes", None, at),
            models=MappingProxyType({str(k): MappingProxyType(dict(v)) for k, v in overrides.items()}),
        )

    def _model(self, raw: Mapping[str, Any], at: str) -> ModelSpec:
        name = str(self._text(raw, "name", None, at) or "")
        infos = {info.name: info for info in models()}
        if name not in infos:
            close = difflib.get_close_matches(name, infos, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise self._wrong(f"{at}.name", f"one of {', '.join(infos)}", repr(name) + hint)
        options = [option for option in infos[name].options if option not in ("C", "variant")]
        self._only(raw, ["name", "label", "C", "max_flips", *options], at)
        given = {option: raw[option] for option in options if option in raw}
        C = raw.get("C")
        if isinstance(C, str) and C != CROSS_VALIDATE:
            raise self._wrong(f"{at}.C", f"a positive number or {CROSS_VALIDATE!r}", repr(C))
        try:
            model_from_name(name, **given, **({"C": C} if C is not None and not isinstance(C, str) else {}))
        except InvalidInput as error:
            raise InvalidInput(f"{self._file}, {at}: {error}") from None
        max_flips = raw.get("max_flips")
        if max_flips is not None and _whole(max_flips) is None:
            raise self._wrong(f"{at}.max_flips", "a whole number of at least 0", repr(max_flips))
        default = " ".join([name, *(f"{key}={value}" for key, value in given.items())])
        label = str(self._text(raw, "label", default, at))
        return ModelSpec(label, name, MappingProxyType(given), C, max_flips)

    def _certificates(self, raw: Mapping[str, Any]) -> list[Any]:
        value = raw.get("certificates", ["collective"])
        if not isinstance(value, list) or not value:
            raise self._wrong("certificates", f"a list of kinds ({', '.join(KINDS)}) or of tables", repr(value))
        return value

    def _certificate(self, raw: object, at: str) -> CertificateSpec:
        table = {"kind": raw} if isinstance(raw, str) else raw
        if not isinstance(table, dict):
            raise self._wrong(at, f"a kind ({', '.join(KINDS)}) or a table with `kind`", repr(raw))
        self._only(table, ["kind", "engine", "test"], at)
        return CertificateSpec(
            kind=str(self._choice(table, "kind", KINDS, "", at)),
            engine=str(self._choice(table, "engine", ENGINES, "auto", at)),
            test=str(self._choice(table, "test", TESTS, "auto", at)),
        )

    def _tables(self, raw: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        value = raw.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
            raise self._wrong(key, f"at least one table [[{key}]]", repr(value))
        return value

    def _mapping(self, raw: Mapping[str, Any], key: str, at: str) -> dict[str, Any]:
        value = raw.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(f"{at}.{key}", "a table", repr(value))
        return value

    def _text(self, raw: Mapping[str, Any], key: str, default: Any, at: str = "") -> Any:
        value = raw.get(key, default)
        if value is not None and not isinstance(value, str):
            raise self._wrong(_join(at, key), "a text", repr(value))
        return value

    def _flag(self, raw: Mapping[str, Any], key: str, at: str = "") -> bool:
        value = raw.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(_join(at, key), "true or false", repr(value))
        return value

    def _positive(self, raw: Mapping[str, Any], key: str, what: str) -> float | None:
        value = raw.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self._wrong(key, what, repr(value))
        return float(value)

    def _share(self, raw: Mapping[str, Any], key: str) -> float | None:
        if key in raw and _fraction(raw[key]) is None:
            raise self._wrong(key, "a fraction between 0 and 1", repr(raw[key]))
        return _fraction(raw[key]) if key in raw else None

    def _choice(self, raw: Mapping[str, Any], key: str, among: Sequence[str], default: Any, at: str = "") -> Any:
        value = raw.get(key, default)
        if (value is not default and value not in among) or value == "":
            raise self._wrong(_join(at, key), f"one of {', '.join(among)}", repr(value))
        return value

    def _list(
        self, raw: Mapping[str, Any], key: str, read: Callable[[Any], Any], what: str, default: Any, at: str = ""
    ) -> Any:
        if key not in raw:
            return default
        value = raw[key]
        if not isinstance(value, list) or not value:
            raise self._wrong(_join(at, key), f"a list of {what}", repr(value))
        entries = [read(entry) for entry in value]
        for entry, got in zip(entries, value, strict=True):
            if entry is None:
                raise self._wrong(_join(at, key), what, repr(got))
        if len(set(entries)) < len(entries):
            raise self._wrong(_join(at, key), f"{what}, each once", repr(value))
        return tuple(entries)

    def _only(self, raw: Mapping[str, Any], known: Sequence[str], at: str) -> None:
        for key in raw:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise self._wrong(_join(at, key), f"one of the keys {', '.join(known)}", f"the key {key!r}{hint}")

    def _wrong(self, at: str, expected: str, got: str) -> InvalidInput:
        return InvalidInput(f"{self._file}, {at}: expected {expected}, got {got}")


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _keys(raw: Mapping[str, Any]) -> str:
    return f"the keys {', '.join(raw)}" if raw else "an empty table"


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _fraction(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _name(value: Any) -> str | None:
    """Names of nodes may be written as numbers."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
