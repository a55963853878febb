"""The connections to one API server, made anew when the certificates they were made with have changed or ended."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from autoscaler.kube import credentials
from autoscaler.kube.connect import Access
from autoscaler.kube.credentials import CHECK_S
from autoscaler.kube.errors import KubeError

if TYPE_CHECKING:
    from kubernetes_asyncio.client.api_client import ApiClient

_log = logging.getLogger(__name__)


class Session:
    """Opened at the first use. Whoever uses it closes it."""

    def __init__(self, access: Access, user_agent: str, *, check_s: float = CHECK_S) -> None:
        self._access, self._user_agent, self._check_s = access, user_agent, check_s
        self._api: ApiClient | None = None
        self._retired: ApiClient | None = None
        self._files: object = None
        self._looked_at = 0.0
        self._opening = asyncio.Lock()

    async def ready(self) -> ApiClient:
        """What requests are sent with now. Raises KubeconfigError when it was never opened and can't be."""
        if self._api is None:
            async with self._opening:
                if self._api is None:
                    self._use(await self._access.open(self._user_agent))
        elif time.monotonic() - self._looked_at >= self._check_s:
            self._looked_at = time.monotonic()
            try:
                await self.reopened()
            except KubeError as error:  # what is there may still serve; if not, the server will say so
                _log.warning("credentials have ended and can't be had anew: %s", error)
        assert self._api is not None
        return self._api

    async def renewed(self) -> bool:
        """Log in anew after a 401; False when this kind of login can't. Raises KubeconfigError."""
        configuration = (await self.ready()).configuration
        if (force := getattr(configuration, "force_refresh", None)) is not None:
            await force()
            return True
        return await self.reopened(refused=True)

    async def reopened(self, *, refused: bool = False) -> bool:
        """Connect anew when CA, client certificate or key are no longer what the library read once, or when a plugin's
        certificate has ended or was ``refused``. What runs on the old connections goes on there, until the next time.
        False when there is nothing new. Raises KubeconfigError.
        """
        async with self._opening:
            api = self._api
            if api is None:
                return False
            again = refused and hasattr(api.configuration, "certificate_expired")
            if not again and not credentials.stale(api.configuration, self._files):
                return False
            _log.info("certificates have changed: connecting anew")
            fresh = await self._access.open(self._user_agent)
            old, self._retired = self._retired, api
            self._use(fresh)
        if old is not None:
            await old.close()
        return True

    async def close(self) -> None:
        both, self._api, self._retired = (self._api, self._retired), None, None
        for api in both:
            if api is not None:
                await api.close()

    def _use(self, api: ApiClient) -> None:
        self._api, self._files = api, credentials.files(api.configuration)
        self._looked_at = time.monotonic()
