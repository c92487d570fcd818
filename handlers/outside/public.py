"""Connections to the public internet alone, for URLs that somebody else than the operator has named.

The address that was really connected to is looked at, before anything is said to it: a name that resolves to another
address the second time it is asked (DNS rebinding) gains nothing.
"""

from ipaddress import IPv6Address, ip_address
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from mayfly import Dead


class PublicConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _refuse_our_own(self)


class PublicTLSConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _refuse_our_own(self)


class _Pool(HTTPConnectionPool):
    ConnectionCls = PublicConnection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = PublicTLSConnection


class PublicPool(PoolManager):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}


def _refuse_our_own(connection: HTTPConnection) -> None:
    if connection.sock is None or not is_public(connection.sock.getpeername()[0]):
        connection.close()
        raise Dead(f"{connection.host} is no address of the public internet")


def is_public(text: str) -> bool:
    """Whether the internet routes an address; one of IPv4 in the clothes of IPv6 is seen as what it is."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_global and not address.is_multicast
