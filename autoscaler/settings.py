"""Every setting of the process, once: its default, its unit and what it is for.

A leaf ``prometheus.token_file`` is the flag ``--prometheus-token-file``, the variable
``AUTOSCALER_PROMETHEUS_TOKEN_FILE`` and the key ``prometheus: {tokenFile: …}`` of the file named by ``--config``; flags
win over variables, variables over the file. Secrets are never settings: they come from the files that settings name.
The tree is frozen; a reload builds a new one.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from autoscaler.model.policy import CpuAmount
from autoscaler.model.quantity import format_duration, parse_duration
from autoscaler.observe import yaml12
from autoscaler.observe.policy_errors import FieldPath, explain_one, misplaced, near, spelled

PREFIX = "AUTOSCALER_"
_OTHERS = frozenset(PREFIX + name for name in ("CONFIG", "RECORDINGS", "TRACES", "TRUTH"))
"""Not settings: the settings file, and where measurements find recordings, load traces and truth to compare with."""


def _words(value: Any) -> Any:
    """A list may be written as one text with commas, which is how it stands in a variable."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


def _existing(value: Any) -> Any:
    if isinstance(value, str | Path) and not Path(value).expanduser().is_file():
        raise ValueError(f"there is no file {str(value)!r}; name an existing one")
    return str(Path(value).expanduser()) if isinstance(value, str | Path) else value


ExistingFile = Annotated[str, BeforeValidator(_existing)]
"""Path of a file that must be there at start: a named file that isn't is an error, not a default."""


Duration = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
"""Seconds; written ``500ms``, ``30s``. A bare number counts as seconds, as in a command line's ``--interval 5``."""


class Part(BaseModel):
    """A branch of the tree: frozen, camelCase in the file, unknown keys are errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class ApiSettings(Part):
    """The API server, from the client's side."""

    qps: float = Field(100.0, gt=0, le=10_000, description="Requests a second on the average.")
    burst: int = Field(1000, ge=1, le=100_000, description="Requests that may go at once.")


class PrometheusSettings(Part):
    """A Prometheus, or what speaks like one (Thanos, Mimir, VictoriaMetrics)."""

    url: str | None = Field(
        None, pattern=r"^https?://[^/\s]+", description="Base URL; without it there is no such source."
    )
    token_file: ExistingFile | None = Field(None, description="File with a bearer token.")
    username: str | None = Field(None, description="User for basic authentication.")
    password_file: ExistingFile | None = Field(None, description="File with that user's password.")
    ca_file: ExistingFile | None = Field(None, description="File with the CA that signed the server's certificate.")
    headers: Words = Field((), description="Extra headers, each NAME=VALUE (for example X-Scope-OrgID=team).")
    timeout: Duration = Field(4.0, gt=0, le=120, description="Deadline of one query.")
    certificate_file: ExistingFile | None = Field(
        None, description="Client certificate, where the server asks for one."
    )
    key_file: ExistingFile | None = Field(None, description="Private key of that certificate.")
    insecure: bool = Field(False, description="Don't check the server's certificate.")
    pod_label: str = Field("pod", min_length=1, description="How the scrape configuration calls the pod.")
    namespace_label: str = Field("namespace", min_length=1, description="How it calls the namespace.")
    replica_labels: Words = Field((), description="Labels that tell copies of a highly available pair apart.")

    @model_validator(mode="after")
    def _together(self) -> PrometheusSettings:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificateFile and keyFile belong together; name both or none")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and passwordFile belong together; name both or none")
        for header in self.headers:
            if "=" not in header:
                raise ValueError(f"header {header!r} has no value; write NAME=VALUE")
        return self


class HttpSettings(Part):
    """The server of /healthz, /readyz and /metrics."""

    listen: str = Field(
        "0.0.0.0:8080", pattern=r"^\S*:\d{1,5}$|^off$", description="HOST:PORT, or off. Port 0 takes a free one."
    )


class LeaderSettings(Part):
    """Leadership among several replicas of this program."""

    elect: bool = Field(False, description="Act only while holding the Lease.")
    name: str = Field("inference-autoscaler", min_length=1, description="Name of the Lease.")
    namespace: str | None = Field(None, description="Namespace of the Lease; default: the pod's own.")


class BrakeSettings(Part):
    """Limits for the whole fleet."""

    cores_per_minute: CpuAmount | None = Field(
        None, description="CPU that may be added in a minute; default: no limit."
    )
    resizes_in_flight: int | None = Field(None, ge=1, description="Resizes under way at once; default: no limit.")


class LogSettings(Part):
    format: Literal["auto", "text", "json"] = Field("auto", description="auto: text on a terminal, else JSON lines.")
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least that is written.")


class Settings(BaseSettings):
    """The whole tree."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    policy: Words = Field((), description="File or directory with policies; repeatable.")
    kubeconfig: str | None = Field(None, description="Path of a kubeconfig; default: as kubectl does.")
    context: str | None = Field(None, description="Context of the kubeconfig.")
    server: str | None = Field(None, description="Bare URL of an API server that asks no credentials.")
    namespace: str | None = Field(None, description="The one namespace to watch; default: the whole cluster.")
    resources: bool = Field(False, description="Also obey InferenceAutoscaler objects in the cluster.")
    interval: Duration = Field(5.0, ge=0.2, le=300, description="Time between ticks.")
    dry_run: bool = Field(False, description="Decide and print, send nothing.")
    shutdown: Duration = Field(
        10.0, ge=0, le=600, description="On SIGTERM, follow resizes in flight for at most this long."
    )
    reload: Duration = Field(
        2.0, ge=0.1, le=300, description="How often policy and settings files are looked at for changes."
    )
    api: ApiSettings = Field(default_factory=ApiSettings)
    prometheus: PrometheusSettings = Field(default_factory=PrometheusSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    leader: LeaderSettings = Field(default_factory=LeaderSettings)
    brakes: BrakeSettings = Field(default_factory=BrakeSettings)
    log: LogSettings = Field(default_factory=LogSettings)


class SettingsError(ValueError):
    """What is wrong with the settings, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting with its three names."""

    path: tuple[str, ...]
    field: FieldInfo

    @property
    def flag(self) -> str:
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + "_".join(self.path).upper()

    @property
    def key(self) -> str:
        return ".".join(to_camel(part) for part in self.path)

    @property
    def many(self) -> bool:
        return get_origin(self.field.annotation) is tuple

    @property
    def switch(self) -> bool:
        return self.field.annotation is bool


def leaves(model: type[BaseModel] = Settings, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Every setting, in the order of the tree."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, (*path, name))
        else:
            yield Leaf((*path, name), field)


def add_arguments(parser: argparse.ArgumentParser, only: Sequence[str] | None = None) -> None:
    """One flag for each setting; ``only`` keeps the settings (or branches) named."""
    parser.add_argument("--config", metavar="FILE", help="YAML file with settings (AUTOSCALER_CONFIG)")
    for leaf in leaves():
        if only is not None and leaf.path[0] not in only:
            continue
        text = f"{leaf.field.description or ''} [{_default(leaf)}]".replace("%", "%%")
        dest = _dest(leaf.path)
        if leaf.switch:
            parser.add_argument(leaf.flag, dest=dest, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif leaf.many:
            parser.add_argument(leaf.flag, dest=dest, action="append", metavar=_metavar(leaf), help=text)
        else:
            parser.add_argument(leaf.flag, dest=dest, metavar=_metavar(leaf), help=text)


def flags_given(args: argparse.Namespace, beside: Sequence[str] = ("log",)) -> list[str]:
    """The settings that were given as flags, but those of ``beside``."""
    return [leaf.flag for leaf in leaves() if leaf.path[0] not in beside and getattr(args, _dest(leaf.path), None)]


def config_file(args: argparse.Namespace | None, environ: Mapping[str, str] | None = None) -> str | None:
    """The settings file that is named, if one is."""
    environ = os.environ if environ is None else environ
    by_flag = getattr(args, "config", None) if args is not None else None
    return by_flag or environ.get(PREFIX + "CONFIG") or None


def load(
    args: argparse.Namespace | None = None, environ: Mapping[str, str] | None = None, **fixed: Any
) -> tuple[Settings, tuple[str, ...]]:
    """The settings, and warnings about variables that look like settings but aren't. Raises SettingsError.

    ``fixed``: values set by code, above all.
    """
    environ = os.environ if environ is None else environ
    flags: dict[str, Any] = {}
    named: dict[FieldPath, str] = {}
    variables: dict[str, Any] = {}
    known = {leaf.variable: leaf for leaf in leaves()}
    for leaf in known.values():
        given = getattr(args, _dest(leaf.path), None) if args is not None else None
        if leaf.variable in environ and (environ[leaf.variable] or not leaf.switch):
            _put(variables, leaf.path, environ[leaf.variable])
            named[_camel(leaf.path)] = leaf.variable
        if given is not None:
            _put(flags, leaf.path, given)
            named[_camel(leaf.path)] = leaf.flag
    for name, value in fixed.items():
        _put(flags, (name,), value)
    by_flag = getattr(args, "config", None) if args is not None else None
    config = config_file(args, environ)
    file, document = "", yaml12.Document({})
    if config:
        file = str(config)
        document = _read(Path(config).expanduser(), "--config" if by_flag else PREFIX + "CONFIG")
    layers = (flags, variables, document.value)

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(cls, settings_cls: type[BaseSettings], *_: Any, **__: Any) -> tuple[Any, ...]:
            return tuple(_Layer(settings_cls, values) for values in layers)

    wrong = [_say(path, told, named, file, document) for path, told in misplaced(document.value, Settings)]
    try:
        settings = Layered()
    except ValidationError as error:
        merged = _merged(layers)
        told = [explain_one(each, merged, Settings) for each in error.errors()]
        raise SettingsError([*wrong, *(_say(path, line, named, file, document) for path, line in told)]) from None
    if wrong:
        raise SettingsError(wrong)
    return settings, tuple(_strangers(environ, known))


class _Layer(PydanticBaseSettingsSource):
    """What one source says, as a nested map under the file's names."""

    def __init__(self, settings_cls: type[BaseSettings], values: dict[str, Any]) -> None:
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._values.get(to_camel(field_name)), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._values


def _camel(path: Sequence[str]) -> FieldPath:
    return tuple(to_camel(part) for part in path)


def _dest(path: Sequence[str]) -> str:
    return "setting_" + "_".join(path)


def _metavar(leaf: Leaf) -> str:
    kinds: dict[Any, str] = {Duration: "TIME", CpuAmount: "CPU", ExistingFile: "FILE"}
    last = leaf.path[-1]
    if "file" in last or last in ("policy", "kubeconfig"):
        return "FILE"
    inside = (leaf.field.annotation, *get_args(leaf.field.annotation))
    if get_origin(leaf.field.annotation) is Literal:
        return "|".join(get_args(leaf.field.annotation))
    return kinds.get(leaf.field.annotation, "N" if int in inside or float in inside else last.upper())


def _default(leaf: Leaf) -> str:
    default = leaf.field.default
    shown = "" if default in (None, ()) else f"; default {spelled(leaf.field, default)}"
    return f"{leaf.variable}{shown}"


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *branches, last = _camel(path)
    for name in branches:
        tree = tree.setdefault(str(name), {})
    tree[str(last)] = tuple(value) if isinstance(value, list) else value


def _merged(layers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        for name, value in layer.items():
            below = merged.get(name)
            merged[name] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _read(path: Path, said_by: str) -> yaml12.Document:
    try:
        documents = yaml12.load_all(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError([f"{said_by}: there is no file {str(path)!r}; name an existing one"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"{said_by}: {path} can't be read: {getattr(error, 'strerror', None) or error}"]) from None
    except yaml12.YamlError as error:
        where = f" (line {error.line})" if error.line else ""
        raise SettingsError([f"{path}: can't be read as YAML: {error.message}{where}"]) from None
    if len(documents) > 1:
        raise SettingsError([f"{path}: has {len(documents)} documents; settings are one map"])
    if documents and not isinstance(documents[0].value, dict):
        raise SettingsError([f"{path}: is not a map; write for example interval: 5s"])
    return documents[0] if documents else yaml12.Document({})


def _say(path: FieldPath, told: str, named: Mapping[FieldPath, str], file: str, document: yaml12.Document) -> str:
    """The line with the name the person used: the flag, the variable, or the key in the file."""
    for length in range(len(path), 0, -1):
        if path[:length] in named:
            return f"{named[path[:length]]}: {told}"
    line = document.line(path)
    return f"{file}: {'.'.join(map(str, path))}: {told}{f' (line {line})' if line else ''}"


def _strangers(environ: Mapping[str, str], known: Mapping[str, Leaf]) -> Iterator[str]:
    """Variables with our prefix that are no setting. Those that Kubernetes sets for a Service are left alone."""
    for name in environ:
        if name.startswith(PREFIX) and name not in known and name not in _OTHERS:
            if "_SERVICE_" in name or "_PORT" in name:
                continue
            yield f"{name}: is not a setting{near(name, known)}"
