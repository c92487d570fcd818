"""A connection pool that refuses private addresses, for URLs that do not come from the operator (SSRF).

It checks the address of the open connection before it sends the request, which also prevents DNS rebinding.
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from mayfly import Dead

NAT64 = IPv6Network("64:ff9b::/96")  # a translator forwards to the IPv4 address in the last 32 bits (RFC 6052)
NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")  # the same within a private network (RFC 8215)


class PublicConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _refuse_private(self)


class PublicTLSConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _refuse_private(self)


class _PublicHTTPPool(HTTPConnectionPool):
    ConnectionCls = PublicConnection


class _PublicHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = PublicTLSConnection


class PublicPool(PoolManager):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.pool_classes_by_scheme = {"http": _PublicHTTPPool, "https": _PublicHTTPSPool}


def _refuse_private(connection: HTTPConnection) -> None:
    if connection.sock is None or not is_public(connection.sock.getpeername()[0]):
        connection.close()
        raise Dead(f"{connection.host} is not a public address")


def is_public(text: str) -> bool:
    """Whether the address is routed on the internet. IPv6 addresses with an IPv4 address in them count as that."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        address = _embedded_ipv4(address) or address
    return address.is_global and not address.is_multicast and address not in NAT64_LOCAL


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address in NAT64:
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour
