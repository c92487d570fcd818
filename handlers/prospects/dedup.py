"""Walk through all prospects in up to four passes, each in a different order; merge duplicates, propose likely ones.

A pass continues from its checkpoint, a key and an id. A page that is repeated after a crash finds its merges done and
repeats none of them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from handlers.prospects.match_keys import keys_of
from handlers.prospects.merge import ProspectPair, count_proposals, merge, propose
from handlers.prospects.payloads import DedupProspects
from handlers.prospects.similarity import Candidate, SortedNeighbourhood, candidate, load_ratio
from handlers.prospects.tables import KEYS, merges, prospects
from mayfly import Job

PAGE_SIZE = 1000
MERGES_PER_COMMIT = 200  # other sessions may wait for these rows
PASSES = {"mail": ["email_key"], "similarity": ["by_name", "by_company"]}


def dedup(job: Job, wanted: DedupProspects) -> dict[str, Any]:
    run = _DedupRun(job, wanted)
    passes: dict[str, Callable[[], None]] = {"keys": run.renew_keys, "email_key": run.merge_by_mail}
    passes |= dict.fromkeys(PASSES["similarity"], run.merge_by_similarity)
    for name in run.names[run.number :]:
        run.begin(name)
        passes[name]()
    run.report(len(run.names))
    # Counted in the table: a killed run may have merged more than it counted.
    counted = select(func.count()).select_from(merges).where(merges.c.job_id == job.id)
    merged = job.read(lambda connection: connection.scalar(counted))
    proposed = job.read(lambda connection: count_proposals(connection, job.id))
    return {"prospects": run.state["total"], "merged": merged, "proposed": proposed}


class _DedupRun:
    """One run of one job; `state` is its checkpoint."""

    def __init__(self, job: Job, wanted: DedupProspects) -> None:
        self._job, self._wanted = job, wanted
        self.names = ["keys", *(key for rule, keys in PASSES.items() if rule in wanted.rules for key in keys)]
        self.state: dict[str, Any] = job.state or self._new_state()

    def _new_state(self) -> dict[str, Any]:
        counted = select(func.count()).select_from(prospects).where(prospects.c.merged_into.is_(None))
        total = self._job.read(lambda connection: connection.scalar(counted))
        return {"pass": "keys", "key": "", "id": 0, "kept": [], "merged": 0, "seen": 0, "total": total}

    @property
    def number(self) -> int:
        """The name of the current pass."""
        return self.names.index(self.state["pass"])

    def begin(self, name: str) -> None:
        """Start a pass, unless the checkpoint is in it."""
        if self.state["pass"] != name:
            self.state |= {"pass": name, "key": "", "id": 0, "kept": [], "seen": 0}

    def report(self, passes: float) -> None:
        """Write the progress: completed passes, and a fraction of the current one."""
        total, merged = self.state["total"], self.state["merged"]
        self._job.progress(int(passes * total), len(self.names) * total, f"prospects compared: {merged:,} merged")

    def renew_keys(self) -> None:
        """Compute keys that are missing, because of other inserts or changes, or that have an older version."""
        while (done := self._job.write(self._renew_page))[1]:
            self._keep("", done[0], done[1])

    def _renew_page(self, connection: Connection) -> tuple[int, int]:
        """Return the last id and the number of prospects."""
        c = prospects.c
        names = ("id", "email", "name", "company", *KEYS)
        query = select(*(c[name] for name in names)).where(c.id > self.state["id"]).order_by(c.id).limit(PAGE_SIZE)
        page = connection.execute(query).mappings().all()
        stale = []
        for row in page:
            keys = keys_of(dict(row))
            if keys != {name: row[name] for name in KEYS}:
                stale.append({"row_id": row["id"], **keys})
        if stale:
            connection.execute(update(prospects).where(c.id == bindparam("row_id")), stale)
        return (page[-1]["id"], len(page)) if page else (0, 0)

    def merge_by_mail(self) -> None:
        """Merge prospects with the same address into the first one."""
        for page in self._pages("email_key"):
            pairs: list[ProspectPair] = []
            for prospect_id, key, *_ in page:
                if [key] == self.state["kept"][1:]:
                    pairs.append(ProspectPair(self.state["kept"][0], prospect_id, "mail", 100.0))
                else:
                    self.state["kept"] = [prospect_id, key]
            self._merge(pairs)

    def merge_by_similarity(self) -> None:
        key = self.state["pass"]
        near = SortedNeighbourhood(self._wanted.neighbours, self._wanted.similarity, load_ratio())
        near.restore(self._candidates_again(key, self.state["kept"]))
        for page in self._pages(key):
            pairs = [pair for row in page for pair in near.add(candidate(*row))]
            self.state["kept"] = near.ids
            self._merge([each for each in pairs if each.is_certain])
            self._propose([each for each in pairs if not each.is_certain])

    def _pages(self, key: str) -> Iterator[Sequence[Any]]:
        """Yield pages. When the next page is requested, the checkpoint moves past the current one."""
        c, column = prospects.c, prospects.c[key]
        while True:
            last_key, last_id = self.state["key"], self.state["id"]
            query = (
                select(c.id, column, c.email_key, c.phone, c.linkedin)
                .where(c.merged_into.is_(None), column >= last_key, (column > last_key) | (c.id > last_id))
                .order_by(column, c.id)
                .limit(PAGE_SIZE)
            )
            page = self._read(query)
            if not page:
                return
            yield page
            self._keep(page[-1][1], page[-1][0], len(page))

    def _candidates_again(self, key: str, ids: list[int]) -> list[Candidate]:
        """The prospects of the window in their old order, without those merged in the meantime."""
        if not ids:
            return []
        c, column = prospects.c, prospects.c[key]
        query = select(c.id, column, c.email_key, c.phone, c.linkedin)
        rows = self._read(query.where(c.merged_into.is_(None), column.is_not(None), c.id.in_(ids)))
        return sorted((candidate(*row) for row in rows), key=lambda each: ids.index(each.id))

    def _read(self, query: Any) -> Sequence[Any]:
        return self._job.read(lambda connection: connection.execute(query).all())

    def _merge(self, pairs: list[ProspectPair]) -> None:
        rest = iter(pairs)
        while some := list(islice(rest, MERGES_PER_COMMIT)):
            now = self._job.now
            self.state["merged"] += self._job.write(
                lambda connection: merge(connection, some, self._job.id, now)  # noqa: B023 - called at once
            )

    def _propose(self, pairs: list[ProspectPair]) -> None:
        if pairs:
            job = self._job
            job.write(lambda connection: propose(connection, pairs, job.id, job.now))

    def _keep(self, key: str, prospect_id: int, seen: int) -> None:
        self.state |= {"key": key, "id": prospect_id, "seen": self.state["seen"] + seen}
        share = min(1.0, self.state["seen"] / max(1, self.state["total"]))
        self.report(self.number + share)
        self._job.checkpoint(self.state)
