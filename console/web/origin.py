"""Whether a request that changes something comes from a page of ours. Pure."""

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
FIELD, HEADER = "csrf", "x-csrf-token"
FORM = "application/x-www-form-urlencoded"


def is_foreign(headers: Mapping[str, str]) -> bool:
    """What the browser says of where it comes from.

    Plain-HTTP names of an intranet get no Sec-Fetch-Site, and only then Origin is compared with Host: behind a proxy
    the two may differ. A request with neither is no browser's, or comes from no page.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()


def brings_token(headers: Mapping[str, str], body: bytes, token: str) -> bool:
    given = headers.get(HEADER)
    if given is None and headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
        given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=None).get(FIELD, [""])[0]
    return hmac.compare_digest((given or "").encode(), token.encode())


def local_path(given: str) -> str:
    """Where somebody wants to go, if that is a page of ours; else the first one."""
    is_local = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
    return given if is_local and "\\" not in given else "/"
