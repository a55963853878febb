"""The tree of settings: each with its default, its unit and what it is for. Frozen; a reload builds a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, SettingsConfigDict

from autoscaler.model.policy import CpuAmount
from autoscaler.model.quantity import format_duration, parse_duration


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
    proxy: str | None = Field(
        None, pattern=r"^http://[^/\s]+", description="HTTP proxy on the way; those of the environment are not used."
    )
    pod_label: str = Field("pod", min_length=1, description="How the scrape configuration calls the pod.")
    namespace_label: str = Field("namespace", min_length=1, description="How it calls the namespace.")
    replica_labels: Words = Field((), description="Labels that tell copies of a highly available pair apart.")

    @field_validator("url")
    @classmethod
    def _no_secret(cls, url: str | None) -> str | None:
        """A password in it would be told wherever the address is: in reasons, logs and snapshots."""
        if url is not None and "@" in url.split("/")[2]:
            raise ValueError("no place for a user or a password; give them as username and passwordFile")
        return url

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

    listen: str = Field("0.0.0.0:8080", description="HOST:PORT, or off. Port 0 takes a free one.")

    @field_validator("listen")
    @classmethod
    def _address(cls, written: str) -> str:
        host, colon, port = written.rpartition(":")
        if written != "off" and (not colon or any(map(str.isspace, host)) or not port.isdecimal() or int(port) > 65535):
            raise ValueError(f"{written!r} is not HOST:PORT with a port up to 65535, for example 0.0.0.0:8080, nor off")
        return written


class LeaderSettings(Part):
    """Leadership among several replicas of this program."""

    elect: bool = Field(True, description="Act only while holding the Lease, so that of several processes one acts.")
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
