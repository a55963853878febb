"""Credentials that change while the program runs: tokens and certificates of plugins, token files, cloud logins.

The client library asks a credential plugin for a certificate once, and renews tokens only while a task of its own runs.
Here a token is renewed at the request that needs it, and ``stale`` says when certificates ask for a fresh connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from autoscaler.kube.errors import Unreachable

CREDENTIAL_PLUGIN_S: Final = 60.0
"""A credential plugin that takes longer is hanging (it may ask a browser)."""
CHECK_S: Final = 30.0
"""How often sources of credentials are looked at."""
SKEW_S: Final = 30.0
"""A credential that ends so soon has ended: clocks differ, and a request takes its time."""


async def load(configuration: Any, paths: str, context: str | None, where: str) -> None:
    """Fill a client configuration from a kubeconfig (or several, joined by the path separator) and keep it fresh.

    Raises what the library raises, and ConfigException for a plugin that gives nothing to log in with.
    """
    loader = _loader(paths, context)
    await loader.load_and_set(configuration)
    user = loader._user
    by_plugin = user is not None and "exec" in user
    if by_plugin and getattr(loader, "cert_file", None):
        configuration.certificate_expired = lambda: _ended(loader.expires_at)
    if "BearerToken" in configuration.api_key and (
        by_plugin or (user is not None and "tokenFile" in user) or loader.provider in ("gcp", "oidc")
    ):
        _keep_token(loader, configuration, where)


def stale(configuration: Any, seen: object) -> bool:
    """Whether a connection made earlier uses what is no longer there. ``seen``: ``files`` as they were then."""
    expired: Callable[[], bool] | None = getattr(configuration, "certificate_expired", None)
    return files(configuration) != seen or (expired is not None and expired())


def files(configuration: Any) -> object:
    """The state of the files that TLS read once: CA, client certificate and key."""
    return tuple(_stamp(path) for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file))


def _ended(at: float | None) -> bool:
    return at is not None and time.time() > at - SKEW_S


def _stamp(path: str | None) -> object:
    if not path:
        return None
    try:
        seen = Path(path).stat()
    except OSError:
        return None
    return (seen.st_mtime_ns, seen.st_ino, seen.st_size)


def _loader(paths: str, context: str | None) -> Any:
    """The library's loader, but that a plugin's certificates have an end too and nothing is no login."""
    from kubernetes_asyncio.config.config_exception import ConfigException
    from kubernetes_asyncio.config.exec_provider import ExecProvider
    from kubernetes_asyncio.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

    class Loader(KubeConfigLoader):
        expires_at: float | None = None

        async def load_from_exec_plugin(self) -> bool:
            assert self._user is not None
            if hasattr(self, "asked") and not _ended(self.expires_at):
                return True
            command = self._user["exec"].safe_get("command") or "?"
            status = await ExecProvider(self._user["exec"]).run()
            if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
                raise ConfigException(f"credential plugin {command}: neither a token nor a client certificate")
            if token := status.get("token"):
                self.token = f"Bearer {token}"
            if status.get("clientCertificateData"):
                if not status.get("clientKeyData"):
                    raise ConfigException(f"credential plugin {command}: a client certificate without clientKeyData")
                for kept, name in (("cert_file", "clientCertificateData"), ("key_file", "clientKeyData")):
                    data = FileOrData(status, None, data_key_name=name, base64_file_content=False)
                    setattr(self, kept, data.as_file())
            self.expires_at = _seconds(status.get("expirationTimestamp"), command)
            self.asked = True
            return True

    def _seconds(text: Any, command: Any) -> float | None:
        if not text:
            return None
        try:
            return datetime.fromisoformat(str(text)).timestamp()
        except ValueError:
            raise ConfigException(f"credential plugin {command}: expirationTimestamp {text!r} is no time") from None

    return Loader(config_dict=KubeConfigMerger(paths).config, config_base_path=None, active_context=context)


def _keep_token(loader: Any, configuration: Any, where: str) -> None:
    """Let the token follow its source: plugins and cloud logins by expiry, token files by reading them again.

    A hook at each request, which can be forced (see ``KubeClient``) when the server says 401.
    """
    checked = time.monotonic()
    lock = asyncio.Lock()

    async def refresh(config: Any) -> None:
        nonlocal checked
        if time.monotonic() - checked < CHECK_S:
            return
        async with lock:
            if time.monotonic() - checked < CHECK_S:
                return
            try:
                async with asyncio.timeout(CREDENTIAL_PLUGIN_S):
                    await loader._load_authentication()
            except Exception as error:  # a plugin may fail in any way; the request it was for has no answer then
                raise Unreachable(f"{where}: no fresh token: {' '.join(str(error).split())}") from None
            config.api_key["BearerToken"] = loader.token
            checked = time.monotonic()

    async def force() -> None:
        nonlocal checked
        checked = -CHECK_S
        loader.expires_at = 0.0

    configuration.refresh_api_key_hook = refresh
    configuration.force_refresh = force
