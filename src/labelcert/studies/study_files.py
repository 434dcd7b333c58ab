"""Reads study files. Every mistake is reported with the file, the key, what was expected there and what came."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from labelcert.baselines import BASELINES
from labelcert.checking import nearest
from labelcert.engines.registry import engine_names
from labelcert.errors import InvalidInput
from labelcert.extensions import load_extensions
from labelcert.graphs import dataset_info
from labelcert.jobs.cells import ATTACK, CERTIFY, USING
from labelcert.losses import loss_names
from labelcert.models import model_from_name, models
from labelcert.reading import read_bytes
from labelcert.studies.schema import (
    COLUMNS,
    LOSS_MARK,
    PAPER_BUDGETS,
    CertificateSpec,
    DatasetSpec,
    Kind,
    ModelSpec,
    Study,
)

LARGEST = 1 << 20
"""Most bytes of a study file."""

DEEPEST = 32
_LONG_KEY = re.compile(rf"(?:[\w\"'-]+[ \t]*\.[ \t]*){{{DEEPEST}}}")

MOST_MODELS = 10_000
MOST_CERTIFICATES = 200_000
"""Larger studies are refused before anything is computed."""

MODEL_KEYS = (
    *("name", "label", "C", "loss", "max_flips", "parts", "combine", "verify", "choose", "search"),
    *("width", "radius", "norm", "poisoned", "among", "backdoor", "using", "using_options"),
)
"""Keys that every model has, beside its own options."""


MORE = (
    *("losses", "recheck", "harden", "transfer", "transfer-wide", "attacks", "certificates", "sanitizing"),
    *("features-csbm", "features-cora-ml-b"),
)
"""Studies that go beyond the paper."""

SHIPPED: dict[str, tuple[str, str]] = dict.fromkeys(MORE, (__package__, "more"))
"""The package and the folder that hold the file of each study."""


def find_study(file: str) -> Study:
    """Read a study from a file, or one that comes with the package by its name."""
    load_extensions()
    path = Path(file)
    return read_study(path) if path.is_file() or file not in SHIPPED else shipped_study(file)


@cache
def shipped_study(name: str) -> Study:
    """Read a study that comes with the package."""
    package, folder = SHIPPED[name]
    text = files(package).joinpath(folder, f"{name}.toml").read_text(encoding="utf-8")
    return parse_study(text, name=name, file=f"{name}.toml")


def read_study(path: Path) -> Study:
    """Read a study from its file."""
    try:
        text = read_bytes(path, most=LARGEST).decode()
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no study file {path}; `labelcert reproduce --list` names those of the paper"
        ) from None
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
    return parse_study(text, name=path.stem, file=str(path), folder=path.parent)


def parse_study(text: str, *, name: str, file: str = "study", folder: Path = Path()) -> Study:
    r"""Read a study from TOML text; relative paths of tables start at ``folder``."""
    if _LONG_KEY.search(text):
        raise InvalidInput(f"{file} is no study: it has a key of more than {DEEPEST} parts")
    try:
        raw = _expanded({"name": name, "title": name, **tomllib.loads(text)})
        return _completed(msgspec.convert(raw, Study), folder)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{file} is not TOML: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{file} is no study: it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{file}, {_explained(str(error), raw)}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{file}, {error}") from None


def _expanded(raw: dict[str, Any]) -> dict[str, Any]:
    """Spell out what a file may abbreviate: certificates by kind, options beside a name, lists for a grid of models."""

    def expand(entry: Any) -> list[Any]:
        if not isinstance(entry, dict):
            return [entry]
        grid = {key: value for key, value in entry.items() if isinstance(value, list) and key not in ("name", "label")}
        if empty := [key for key, value in grid.items() if not value]:
            raise _wrong(f"models.{empty[0]}", "at least one value in the list", "an empty list")
        if (count := math.prod(len(values) for values in grid.values())) > MOST_MODELS:
            raise _wrong("models", f"grids of at most {MOST_MODELS:,} models", f"{count:,}")
        expanded = []
        for values in itertools.product(*grid.values()):
            chosen = {**entry, **dict(zip(grid, values, strict=True))}
            options = {key: chosen.pop(key) for key in list(chosen) if key not in MODEL_KEYS}
            if grid:
                # Each needs a label of its own; options are in the usual one already.
                marks = dict(zip(grid, values, strict=True))
                own = {} if "label" in entry else options
                base = str(entry.get("label", entry.get("name", "")))
                chosen["label"] = " ".join([base, *(f"{key}={value}" for key, value in {**own, **marks}.items())])
            expanded.append({"options": options, **chosen})
        return expanded

    if isinstance(given := raw.get("certificates"), list):
        raw["certificates"] = [{"kind": entry} if isinstance(entry, str) else entry for entry in given]
    if isinstance(given := raw.get("metrics"), list):
        raw["metrics"] = [{"name": entry} if isinstance(entry, str) else entry for entry in given]
    if isinstance(given := raw.get("models"), list):
        raw["models"] = [model for entry in given for model in expand(entry)]
    return raw


def _completed(study: Study, folder: Path) -> Study:
    """Fill in defaults that depend on other keys, and refuse what the types cannot."""
    study = _with_metrics(study)
    if not re.fullmatch(r"\w[\w .+-]*", study.name):
        raise _wrong("name", "letters, digits, blanks and the signs . + - _", repr(study.name))
    count = math.prod(len(part) for part in (study.datasets, study.models, study.certificates, study.seeds))
    if (count := count * max(1, len(study.losses))) > MOST_CERTIFICATES:
        raise _wrong("study", f"at most {MOST_CERTIFICATES:,} certificates (split it)", f"{count:,}")
    if study.budgets and study.flips:
        raise _wrong("budgets", "either budgets (fractions) or flips (whole numbers), not both", "both")
    for key in ("seeds", "budgets", "flips", "compare", "losses"):
        _distinct(key, getattr(study, key))
    each = [(model, loss) for model in study.models for loss in study.losses or (model.loss,)]
    study = replace(
        study,
        datasets=tuple(_dataset(spec, f"datasets[{k}]", folder) for k, spec in enumerate(study.datasets)),
        models=tuple(
            _model(spec, loss, f"models[{study.models.index(spec)}]", several=bool(study.losses)) for spec, loss in each
        ),
        budgets=tuple(sorted(study.budgets)) or (() if study.flips else PAPER_BUDGETS),
        flips=tuple(sorted(study.flips)),
    )
    if not study.collective and any(certificate.kind is Kind.COLLECTIVE for certificate in study.certificates):
        raise _wrong("collective", "true, for certificates of the kind collective", "false")
    for k, certificate in enumerate(study.certificates):
        if certificate.engine not in engine_names():
            raise _none_of(f"certificates[{k}].engine", certificate.engine, engine_names())
    for key in ("datasets", "models", "certificates"):
        labels = [spec.label for spec in getattr(study, key)]
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise _wrong(key, "distinct labels; give each a `label` of its own", f"{twice[0]!r} twice")
    known = {name for model in study.models for name in (model.name, model.label)}
    for k, dataset in enumerate(study.datasets):
        if unknown := [name for name in dataset.models if name not in known]:
            expected = f"a model of this study ({', '.join(model.label for model in study.models)})"
            raise _wrong(f"datasets[{k}].models.{unknown[0]}", expected, repr(unknown[0]))
    return study


def _with_metrics(study: Study) -> Study:
    """The study with what its metrics read from certificates."""
    for k, one in enumerate(study.certificates):
        if one.metric is not None or one.kind in (Kind.LOWEST, Kind.HIGHEST):
            raise _wrong(f"certificates[{k}]", "metrics under the key `metrics`", f"{one.kind}")
    if study.metrics and study.report != "certified":
        raise _wrong("metrics", "this key only beside report = 'certified'", f"report = {study.report!r}")
    for k, metric in enumerate(study.metrics):
        if metric.name == "accuracy" and metric.positive:
            raise _wrong(f"metrics[{k}].positive", "no positive class for accuracy", repr(metric.positive))
    more = tuple(CertificateSpec(kind=metric.kind, metric=metric) for metric in study.metrics)
    return replace(study, certificates=(*study.certificates, *more))


def _dataset(spec: DatasetSpec, at: str, folder: Path) -> DatasetSpec:
    if (spec.name is None) == (not spec.files):
        got = "neither" if spec.name is None else "both"
        raise _wrong(at, "a `name`, or your own `edges`, `features` and `labels`", got)
    if spec.labeled is not None and spec.per_class is not None:
        raise _wrong(f"{at}.labeled", "either labeled or per_class, not both", "both")
    for key in ("labeled", "test"):
        _distinct(f"{at}.{key}", [str(name) for name in getattr(spec, key) or ()])
    return _own_tables(spec, at, folder) if spec.name is None else _named(spec, spec.name, at, folder)


def _own_tables(spec: DatasetSpec, at: str, folder: Path) -> DatasetSpec:
    files = {key: str(folder / path) for key, path in spec.files.items()}
    main = files.get("edges", files.get("features"))
    if main is None:
        raise _wrong(at, "an edge list or a feature table beside `labels`", "labels alone")
    for key, path in files.items():
        if not Path(path).is_file():
            raise _wrong(f"{at}.{key}", "the path of a table, relative to the study file", f"no file {path}")
    return replace(spec, label=spec.label or Path(main).name, **files)


def _named(spec: DatasetSpec, name: str, at: str, folder: Path) -> DatasetSpec:
    for key in ("directed", "raw", *COLUMNS):
        if getattr(spec, key) is not None:
            raise _wrong(f"{at}.{key}", "this key only beside your own tables", repr(getattr(spec, key)))
    try:
        info = dataset_info(name)
    except InvalidInput as error:
        raise InvalidInput(f"{at}.name: {error}") from None
    if info.source != "file":
        return replace(spec, label=spec.label or info.name, name=info.name)
    path = folder / name
    if not path.is_file():
        raise _wrong(f"{at}.name", "the path of an .npz file, relative to the study file", f"no file {path}")
    return replace(spec, label=spec.label or path.name, name=str(path))


def _model(spec: ModelSpec, loss: str, at: str, *, several: bool) -> ModelSpec:
    if loss not in loss_names():
        at = "losses" if loss != spec.loss else f"{at}.loss"
        raise _none_of(at, loss, loss_names())
    options = {info.name: info.options for info in models()}
    if spec.name not in options:
        raise _none_of(f"{at}.name", spec.name, options)
    known = [option for option in options[spec.name] if option not in ("C", "variant")]
    for key in spec.options:
        if key not in known:
            raise _unknown(at, key, [*MODEL_KEYS, *known])
    try:
        model_from_name(spec.name, **spec.options, **({"C": spec.C} if isinstance(spec.C, float) else {}))
    except InvalidInput as error:
        raise InvalidInput(f"{at}: {error}") from None
    _check_using(spec, loss, at)
    if (spec.radius is not None) != bool(spec.poisoned or spec.backdoor):
        got = "radius alone" if spec.radius is not None else "none"
        raise _wrong(f"{at}.radius", "a radius beside `poisoned` or `backdoor`, or none of them", got)
    given = {key: spec.options[key] for key in known if key in spec.options}
    combined = spec.combine if spec.using == CERTIFY else spec.using
    ensemble = [] if spec.parts is None else [f"{spec.parts} parts {combined}"]
    proved_by = [spec.using] if spec.using != CERTIFY and spec.parts is None else []
    words = [spec.name, *(f"{key}={value}" for key, value in given.items()), *ensemble, *proved_by]
    label = spec.label or " ".join(words)
    if loss != "hinge" or several:
        label = f"{label}{LOSS_MARK}{loss.replace('_', ' ')}"
    return replace(spec, options=given, label=label, loss=loss)


def _check_using(spec: ModelSpec, loss: str, at: str) -> None:
    known = (CERTIFY, *USING)
    if spec.using not in known:
        raise _none_of(f"{at}.using", spec.using, known)
    if spec.using == CERTIFY and spec.using_options:
        raise _wrong(f"{at}.using_options", "this key only beside `using`", repr(spec.using_options))
    if "seed" in spec.using_options:
        raise _wrong(f"{at}.using_options", "no seed: it is that of the study", repr(spec.using_options))
    if spec.using.startswith(ATTACK) and (spec.parts is not None or set(spec.using_options) - {"targeted"}):
        raise _wrong(f"{at}.using_options", "no option of an attack but `targeted`, and no parts", "others")
    if spec.using in BASELINES:
        parts = () if spec.parts is None else ("parts",)
        try:
            BASELINES[spec.using].check(loss, (*parts, *spec.using_options))
        except InvalidInput as error:
            raise InvalidInput(f"{at}: {error}") from None


def _explained(message: str, raw: Any) -> str:
    """Say in our words what msgspec found: the key, what was expected there, and what came."""
    what, _, path = message.partition(" - at `$")
    kind, at, value = inspect.type_info(Study), "", raw
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        kind, value = _inside(kind, name), value[name or int(index)]
        at = _join(at, name) if name else f"{at}[{index}]"
    field = re.fullmatch(r"Object (contains unknown|missing required) field `(.*)`", what)
    if field is None:
        return str(_wrong(at, _words(kind), repr(value)))
    if field[1] == "missing required":
        return str(_wrong(_join(at, field[2]), _words(_inside(kind, field[2])), "nothing"))
    return str(_unknown(at, field[2], [known.name for known in getattr(kind, "fields", ())]))


def _inside(kind: inspect.Type, name: str) -> inspect.Type:
    """The type of a field, or of the entries of a list."""
    match kind:
        case inspect.Metadata(type=inner) | inspect.UnionType(types=(inner, *_)):
            return _inside(inner, name)
        case inspect.StructType(fields=fields):
            return next(field.type for field in fields if field.name == name)
    return kind.item_type if isinstance(kind, inspect.VarTupleType) else kind


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(words)}):
            return words
        case inspect.UnionType(types=types):
            return " or ".join(_words(each) for each in types if not isinstance(each, inspect.NoneType))
        case inspect.LiteralType(values=(value,)):
            return repr(value)
        case inspect.EnumType(cls=values) | inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.VarTupleType(item_type=entry):
            return f"a list with at least one entry, each {_words(entry)}"
    return {inspect.BoolType: "true or false", inspect.StrType: "a text"}.get(type(kind), "a table")


def _wrong(at: str, expected: str, got: str) -> InvalidInput:
    return InvalidInput(f"{at}: expected {expected}, got {got}")


def _unknown(at: str, key: str, known: Sequence[str]) -> InvalidInput:
    return _wrong(_join(at, key), f"one of the keys {', '.join(known)}", f"the key {key!r}{nearest(key, known)}")


def _none_of(at: str, word: str, known: Iterable[str]) -> InvalidInput:
    return _wrong(at, f"one of {', '.join(known)}", f"{word!r}{nearest(word, known)}")


def _distinct(at: str, entries: Sequence[object]) -> None:
    if len(set(entries)) < len(entries):
        raise _wrong(at, "entries that differ, each once", repr(list(entries)))


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key
