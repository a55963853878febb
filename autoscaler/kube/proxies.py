"""Which proxy a request to the API server goes through: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, read as kubectl does.

The HTTP library's own reading knows no networks in NO_PROXY (10.96.0.0/12, as clusters have it) and would take
credentials from ~/.netrc along. Source of the rules: golang.org/x/net/http/httpproxy, which client-go uses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL, or None for a direct connection. Raises ValueError for one that can't be used."""
    place = urlsplit(url)
    host, port = (place.hostname or "").rstrip("."), place.port or _PORTS.get(place.scheme, 443)
    named = "HTTPS_PROXY" if place.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(named) or environ.get(named.lower()) or ""
    if not proxy or _is_loopback(host) or _excepted(host, port, environ.get("NO_PROXY") or environ.get("no_proxy", "")):
        return None
    return usable(proxy, named)


def usable(proxy: str, named: str) -> str:
    """The proxy with a scheme. ``named``: where it was set, for the message. Raises ValueError."""
    whole = proxy if "://" in proxy else f"http://{proxy}"
    try:
        place = urlsplit(whole)
        fine = place.scheme in _PORTS and bool(place.hostname) and place.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise ValueError(
            f"{named}: {proxy!r} is no proxy that can be used here: write http://HOST:PORT or https://HOST:PORT"
        )
    return whole


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _excepted(host: str, port: int, exceptions: str) -> bool:
    """Whether NO_PROXY names the host: ``*``, an address, a network, a domain (with all below it), ``.domain`` (only
    what is below it); each but a network with or without a port."""
    address = _address(host)
    for each in (part.strip().lower() for part in exceptions.split(",")):
        if not each:
            continue
        if each == "*":
            return True
        if "/" in each:
            try:
                network = ipaddress.ip_network(each, strict=False)
            except ValueError:
                continue
            if address is not None and address in network:
                return True
            continue
        name, wanted = _split(each)
        if wanted and wanted != str(port):
            continue
        if address is not None:
            if _address(name) == address:
                return True
            continue
        if host == name or host.endswith(name if name.startswith(".") else f".{name}"):
            return True
    return False


def _split(text: str) -> tuple[str, str]:
    """Host and port of ``host``, ``host:port``, ``[::1]:port`` and ``::1``; ``*.domain`` is ``.domain``."""
    if text.startswith("["):
        inside, _, rest = text[1:].partition("]")
        return inside, rest.removeprefix(":")
    name, _, port = text.partition(":") if text.count(":") == 1 else (text, "", "")
    return name.removeprefix("*"), port


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
