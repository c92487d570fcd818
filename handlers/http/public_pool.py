"""A connection pool that refuses private addresses, for URLs that do not come from the operator (SSRF).

It checks the address of the open connection, before it sends the request, so DNS rebinding does not help an attacker.
"""

from ipaddress import IPv6Address, ip_address
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from mayfly import Dead


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
    """Whether the address is routed on the internet. IPv4-mapped IPv6 addresses count as IPv4."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_global and not address.is_multicast
