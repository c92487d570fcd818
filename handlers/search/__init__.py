"""Full-text search over boards, posts and prospects, in an index that is rebuilt and then swapped in."""

from typing import Any

from handlers.search.payloads import RebuildSearchIndex
from mayfly import Job, handler

__handlers__ = ()  # all are declared here


@handler("rebuild_search_index", lane="misc")
def rebuild_search_index(job: Job, _nothing: RebuildSearchIndex) -> dict[str, Any]:
    from handlers.search.rebuild import rebuild  # for the one runner per night that needs it

    return rebuild(job)
