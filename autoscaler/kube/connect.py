"""From a kubeconfig or a pod's service account to an ``ApiClient``; every failure is one sentence.

Order: an explicit file, ``$KUBECONFIG``, ``~/.kube/config``, the service account. The user's files are only read.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoscaler.kube import credentials, proxies
from autoscaler.kube.credentials import CREDENTIAL_PLUGIN_S
from autoscaler.kube.errors import KubeconfigError
from autoscaler.kube.fence import fence_requests

if TYPE_CHECKING:
    from kubernetes_asyncio.client.api_client import ApiClient


class Access:
    """One way to one API server. ``open`` builds a fresh ApiClient, reading certificates again."""

    def __init__(self, where: str, load: Callable[[Any], Awaitable[Any]], namespace: str) -> None:
        self.where = where
        """The place the credentials came from, for messages."""
        self.namespace = namespace
        """The namespace of the context or the service account, ``default`` when none is set."""
        self._load = load

    async def open(self, user_agent: str) -> ApiClient:
        # Imported here because it costs 40 MB and a third of a second, which --help and offline work must not pay.
        import yaml
        from kubernetes_asyncio.client.api_client import ApiClient
        from kubernetes_asyncio.client.configuration import Configuration
        from kubernetes_asyncio.config.config_exception import ConfigException

        configuration = type.__call__(Configuration)
        try:
            async with asyncio.timeout(CREDENTIAL_PLUGIN_S):
                await self._load(configuration)
            if configuration.proxy:
                configuration.proxy = proxies.usable(configuration.proxy, "proxy-url")
            else:
                configuration.proxy = proxies.proxy_for(configuration.host, os.environ)
            client = ApiClient(configuration=configuration)
            # Decided above: the library's reading of the environment knows no networks and takes ~/.netrc along.
            client.rest_client.pool_manager._trust_env = False
            fence_requests(client.rest_client.pool_manager)
        except TimeoutError:
            raise KubeconfigError(
                f"{self.where}: the credential plugin gave no answer within {CREDENTIAL_PLUGIN_S:.0f}s: run it by hand"
            ) from None
        except (ConfigException, yaml.YAMLError, ssl.SSLError, OSError, ValueError, KeyError, TypeError) as error:
            raise KubeconfigError(f"{self.where}: {_one_line(error)}") from None
        except (AssertionError, AttributeError):  # how the loader meets an empty or shapeless file
            raise KubeconfigError(
                f"{self.where}: not a kubeconfig: it needs clusters, contexts and current-context"
            ) from None
        client.user_agent = user_agent
        return client


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.removeprefix("Invalid kube-config file. ")


def find_access(kubeconfig: str | Path | None = None, context: str | None = None, server: str | None = None) -> Access:
    """The way to the cluster. ``server``: a bare URL without credentials (emulated clusters, ``kubectl proxy``).

    Raises KubeconfigError when there is none.
    """
    if server is not None:
        return _plain(server)
    paths = _kubeconfig_paths(kubeconfig)
    if paths:
        return _from_kubeconfig(paths, context)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        if context is not None:
            raise KubeconfigError(f"context {context!r} needs a kubeconfig: give one with --kubeconfig")
        return _in_cluster()
    raise KubeconfigError(
        "no cluster: ~/.kube/config doesn't exist, KUBECONFIG isn't set and this is not a pod: give --kubeconfig FILE"
    )


def _kubeconfig_paths(explicit: str | Path | None) -> list[Path]:
    """Explicit files must exist; of a KUBECONFIG list, as with kubectl, those that do are merged."""
    if explicit is not None:
        path = Path(explicit).expanduser()
        if not path.is_file():
            raise KubeconfigError(f"kubeconfig {str(path)!r} doesn't exist or is no file")
        return [path]
    listed = os.environ.get("KUBECONFIG", "")
    if listed:
        named = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
        found = [path for path in named if path.is_file()]
        if not found:
            raise KubeconfigError(f"KUBECONFIG is {listed!r}, but no such file exists")
        return found
    home = Path.home() / ".kube" / "config"
    return [home] if home.is_file() else []


def _plain(server: str) -> Access:
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(f"server {server!r} must start with http:// or https://")

    async def load(configuration: Any) -> None:
        configuration.host = server.rstrip("/")

    return Access(server, load, "default")


def _from_kubeconfig(paths: list[Path], context: str | None) -> Access:
    where = f"kubeconfig {os.pathsep.join(str(path) for path in paths)}"
    namespace, known = _contexts(paths, context, where)
    if context is not None and context not in known:
        there = ", ".join(sorted(known)) or "none"
        raise KubeconfigError(f"{where}: no context {context!r} (there: {there})")

    async def load(configuration: Any) -> None:
        await credentials.load(configuration, os.pathsep.join(str(path) for path in paths), context, where)

    return Access(where, load, namespace)


def _contexts(paths: list[Path], context: str | None, where: str) -> tuple[str, set[str]]:
    import yaml

    contexts: dict[str, Any] = {}
    current = context
    for path in paths:
        try:
            document = yaml.safe_load(path.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise KubeconfigError(f"{where}: {_one_line(error)}") from None
        if not isinstance(document, dict):
            raise KubeconfigError(f"{where}: not a kubeconfig: it needs clusters, contexts and current-context")
        current = current or document.get("current-context")
        for entry in document.get("contexts") or ():
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                contexts.setdefault(entry["name"], entry.get("context") or {})
    if not current:
        raise KubeconfigError(f"{where}: no current-context: give --context (there: {', '.join(sorted(contexts))})")
    chosen = contexts.get(current, {})
    return (chosen.get("namespace") or "default") if isinstance(chosen, dict) else "default", set(contexts)


_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def _in_cluster() -> Access:
    async def load(configuration: Any) -> None:
        from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

        loader = InClusterConfigLoader(
            token_filename=str(_SERVICE_ACCOUNT / "token"), cert_filename=str(_SERVICE_ACCOUNT / "ca.crt")
        )
        loader.load_and_set(configuration)

        async def force() -> None:
            loader._read_token_file()  # type: ignore[no-untyped-call]

        configuration.force_refresh = force

    try:
        namespace = (_SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError:
        namespace = "default"
    return Access("the pod's service account", load, namespace or "default")
