# ruff: noqa: E501
"""Settings: three names for each, their order, and what is refused."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from autoscaler import settings
from autoscaler.settings import SettingsError


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    return parser.parse_args(words)


SECRET = str(Path(__file__))
PARTNERS = {  # what can't stand alone
    "prometheus.username": {"AUTOSCALER_PROMETHEUS_PASSWORD_FILE": SECRET},
    "prometheus.passwordFile": {"AUTOSCALER_PROMETHEUS_USERNAME": "me"},
    "prometheus.certificateFile": {"AUTOSCALER_PROMETHEUS_KEY_FILE": SECRET},
    "prometheus.keyFile": {"AUTOSCALER_PROMETHEUS_CERTIFICATE_FILE": SECRET},
}


def load(*words: str, **environ: str) -> settings.Settings:
    return settings.load(parsed(*words), environ)[0]


def at(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = getattr(tree, name)
    return tree


def sample(leaf: settings.Leaf, tmp_path: Path) -> tuple[str, Any]:
    """A text that is valid for the setting and differs from its default, and the value it stands for."""
    if leaf.switch:
        return ("false", False) if leaf.field.default else ("true", True)
    if leaf.path[-1].endswith("_file"):
        file = tmp_path / "secret"
        file.write_text("s")
        return str(file), str(file)
    special: dict[str, tuple[str, Any]] = {
        "api.qps": ("7", 7.0), "api.burst": ("9", 9), "prometheus.url": ("http://p:9090", "http://p:9090"),
        "prometheus.proxy": ("http://p:3128", "http://p:3128"),
        "http.listen": ("127.0.0.1:0", "127.0.0.1:0"), "brakes.coresPerMinute": ("2500m", 2500),
        "brakes.resizesInFlight": ("3", 3), "prometheus.headers": ("a=b,c=d", ("a=b", "c=d")), "log.format": ("json", "json"), "log.level": ("debug", "debug"),
    }  # fmt: skip
    if leaf.key in special:
        return special[leaf.key]
    if leaf.many:
        return "a,b", ("a", "b")
    if isinstance(leaf.field.default, float):
        return "1m30s", 90.0
    return "word", "word"


@pytest.mark.parametrize("leaf", list(settings.leaves()), ids=lambda leaf: leaf.key)
def test_each_setting_is_flag_variable_and_key_in_this_order(leaf: settings.Leaf, tmp_path: Path) -> None:
    def load(*words: str, **environ: str) -> settings.Settings:
        return settings.load(parsed(*words), {**PARTNERS.get(leaf.key, {}), **environ})[0]

    text, value = sample(leaf, tmp_path)
    assert value != leaf.field.default
    file = tmp_path / "settings.yaml"
    inner = text if leaf.switch or leaf.key.startswith(("api.", "brakes.resizes")) else f'"{text}"'
    for part in reversed(leaf.key.split(".")):
        inner = f"{{{part}: {inner}}}"
    file.write_text(inner)
    assert at(load("--config", str(file)), leaf.path) == value
    assert at(load(AUTOSCALER_CONFIG=str(file)), leaf.path) == value
    assert at(load(**{leaf.variable: text}), leaf.path) == value
    if leaf.switch:
        flags = [leaf.flag if value else leaf.flag.replace("--", "--no-", 1)]
        against = [leaf.flag.replace("--", "--no-", 1) if value else leaf.flag]
        assert at(load(*against, **{leaf.variable: text}), leaf.path) == (not value)
    elif leaf.many:
        flags = [word for part in value for word in (leaf.flag, part)]
    else:
        flags = [leaf.flag, text]
    assert at(load(*flags), leaf.path) == value
    # flag > variable > file
    if not leaf.switch and not leaf.path[-1].endswith("_file"):
        assert at(load(*flags, **{leaf.variable: "2" if text[0].isdigit() else "nonsense"}), leaf.path) == value
        file.write_text("{}")
        assert at(load("--config", str(file), **{leaf.variable: text}), leaf.path) == value


def test_branches_of_several_sources_are_joined(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("api: {qps: 5, burst: 6}\ninterval: 1s\n")
    tree = load("--api-burst", "7", "--config", str(file), AUTOSCALER_API_QPS="8")
    assert (tree.api.qps, tree.api.burst, tree.interval) == (8.0, 7, 1.0)


@pytest.mark.parametrize(
    ("words", "environ", "text", "line"),
    [
        (["--interval", "5 parsecs"], {}, "", "--interval: '5 parsecs' is not a duration (write for example 500ms, 30s, 1m30s)"),
        ([], {"AUTOSCALER_INTERVAL": "-1s"}, "", "AUTOSCALER_INTERVAL: '-1s' is not a duration"),
        ([], {"AUTOSCALER_INTERVAL": "1h"}, "", "AUTOSCALER_INTERVAL: '1h' is out of range; write a value at most 5m"),
        ([], {}, "intervall: 5s", "intervall: is not a field, did you mean 'interval'? (line 1)"),
        ([], {}, "a: 1\napi: {qsp: 5}", "api.qsp: is not a field, did you mean 'qps'? (line 2)"),
        ([], {}, "api: {burst: true}", "api.burst: true is not allowed here; write a number (Requests that may go at once)"),
        ([], {}, "interval: 5s\ninterval: 6s", "can't be read as YAML: key 'interval' is there twice (line 2)"),
        ([], {}, "[1]", "is not a map; write for example interval: 5s"),
        (["--log-level", "loud"], {}, "", "--log-level: 'loud' is not allowed; write debug or info or warning or error"),
        (["--prometheus-token-file", "/nope"], {}, "", "--prometheus-token-file: there is no file '/nope'; name an existing one"),
        (["--prometheus-url", "http://me:hunter2@p:9090"], {}, "", "--prometheus-url: no place for a user or a password; give them as username and passwordFile"),
        ([], {"AUTOSCALER_PROMETHEUS_USERNAME": "me"}, "", "AUTOSCALER_PROMETHEUS_USERNAME: username and passwordFile belong together"),
        ([], {}, "prometheus: {username: me}", "prometheus: username and passwordFile belong together; name both or none (line 1)"),
        (["--dry-run"], {"AUTOSCALER_RESOURCES": "perhaps"}, "", "AUTOSCALER_RESOURCES: 'perhaps' should be a valid boolean"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_under_the_name_it_was_made_with(
    words: list[str], environ: dict[str, str], text: str, line: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(*words, *(["--config", str(file)] if text else []), **environ)
    assert any(line in told for told in caught.value.lines), caught.value.lines
    assert all("\n" not in told and "hunter2" not in told for told in caught.value.lines)


def test_a_named_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"--config: there is no file '/nope'"):
        load("--config", "/nope")
    with pytest.raises(SettingsError, match=r"AUTOSCALER_CONFIG: there is no file '/nope'"):
        load(AUTOSCALER_CONFIG="/nope")


def test_variables_that_look_like_settings_are_told_but_those_of_a_service_are_not() -> None:
    _, told = settings.load(parsed(), {
        "AUTOSCALER_INTERVALL": "5s", "AUTOSCALER_SERVICE_HOST": "10.0.0.1", "AUTOSCALER_PORT": "tcp://10.0.0.1:80",
        "AUTOSCALER_PORT_80_TCP_ADDR": "10.0.0.1", "PATH": "x",
    })  # fmt: skip
    assert told == ("AUTOSCALER_INTERVALL: is not a setting, did you mean 'AUTOSCALER_INTERVAL'?",)


def test_the_tree_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().interval = 1.0  # type: ignore[misc]


def test_secrets_come_from_files_alone() -> None:
    """What a flag or variable holds is seen in process lists and pod specs."""
    words = ("token", "password", "secret", "key")
    named = [leaf.key for leaf in settings.leaves() if any(word in leaf.path[-1].lower() for word in words)]
    assert named
    assert [key for key in named if not key.endswith("File")] == []
