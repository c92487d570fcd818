"""URLs that came from people, and so from anybody."""

from typing import Any
from urllib.parse import urlsplit

from handlers.outside.client import Outside
from mayfly import setting


def given_by_people(url: str, **options: Any) -> Outside:
    """Who is called only in the public internet, unless the operator names his host in PRIVATE_HOSTS."""
    host = (urlsplit(url).hostname or "").lower()
    is_named = host in setting("PRIVATE_HOSTS", "").lower().split()
    return Outside(url, public_only=not is_named, **options)
