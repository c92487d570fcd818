"""Full-text search over what the platform keeps: an index that is built aside and swapped in."""

from typing import Any

from handlers.search.payloads import Rebuild
from mayfly import Job, handler

__handlers__ = ()  # all are here


@handler("rebuild_search_index", lane="misc")
def rebuild_search_index(job: Job, _rebuild: Rebuild) -> dict[str, Any]:
    from handlers.search.building import rebuild  # for the one runner a night that builds

    return rebuild(job)
