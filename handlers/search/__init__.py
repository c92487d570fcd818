"""Full-text search over boards, posts and prospects. The index is rebuilt in a new table and then swapped in."""

from typing import Any

from handlers.search.payloads import RebuildSearchIndex
from mayfly import Job, handler

__handlers__ = ()  # all are declared here


@handler("rebuild_search_index", lane="vacuum_logs")
def rebuild_search_index(job: Job, _nothing: RebuildSearchIndex) -> dict[str, Any]:
    from handlers.search.rebuild import rebuild  # only one runner per night needs it

    return rebuild(job)
