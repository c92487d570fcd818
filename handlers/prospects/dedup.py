"""Walk over all prospects three or four times, each time in another order, and merge who is the same.

A pass goes on where its checkpoint says: behind a key and an id. A page that is repeated after a crash finds its
merges done, and does none of them twice.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from handlers.prospects.keys import keys_of
from handlers.prospects.likeness import Entry, Neighbourhood, entry, load_ratio
from handlers.prospects.merging import Pair, merge
from handlers.prospects.payloads import DedupProspects
from handlers.prospects.tables import KEYS
from mayfly import Job

PAGE = 1000
MERGES_AT_ONCE = 200  # so many commit together: others may wait for these rows

COUNT = "SELECT COUNT(*) FROM app_prospects WHERE merged_into IS NULL"
MERGED = "SELECT COUNT(*) FROM app_merges WHERE job_id = :job_id"
UNKEYED = (
    f"SELECT id, email, name, company, {', '.join(KEYS)} FROM app_prospects WHERE id > :id ORDER BY id LIMIT {PAGE}"
)
REKEY = f"UPDATE app_prospects SET {', '.join(f'{name} = :{name}' for name in KEYS)} WHERE id = :id"
SORTED = (
    "SELECT id, {key}, email_key FROM app_prospects"
    " WHERE merged_into IS NULL AND {key} >= :key AND ({key} > :key OR id > :id)"
    f" ORDER BY {{key}}, id LIMIT {PAGE}"
)
AGAIN = (
    "SELECT id, {key}, email_key FROM app_prospects WHERE merged_into IS NULL AND {key} IS NOT NULL AND {{ids of id}}"
)
PASSES = {"mail": ["email_key"], "likeness": ["by_name", "by_company"]}


def dedup(job: Job, wanted: DedupProspects) -> dict[str, Any]:
    run = _Run(job, wanted)
    walks: dict[str, Callable[[], None]] = {"keys": run.renew_keys, "email_key": run.merge_by_mail}
    walks |= dict.fromkeys(PASSES["likeness"], run.merge_by_likeness)
    for name in run.names[run.number :]:
        run.begin(name)
        walks[name]()
    run.tell(len(run.names))
    # Asked for, not added up: a run that was killed has counted less than it did.
    merged = job.read(lambda connection: connection.execute(MERGED, {"job_id": job.id}).scalar())
    return {"prospects": run.state["total"], "merged": merged}


class _Run:
    """Of one job; `state` is what the checkpoint has."""

    def __init__(self, job: Job, wanted: DedupProspects) -> None:
        self._job, self._wanted = job, wanted
        self.names = ["keys", *(key for rule, keys in PASSES.items() if rule in wanted.rules for key in keys)]
        self.state: dict[str, Any] = job.state or self._new_state()

    def _new_state(self) -> dict[str, Any]:
        total = self._job.read(lambda connection: connection.execute(COUNT).scalar())
        return {"pass": "keys", "key": "", "id": 0, "kept": [], "merged": 0, "seen": 0, "total": total}

    @property
    def number(self) -> int:
        """Of the pass that it is in."""
        return self.names.index(self.state["pass"])

    def begin(self, name: str) -> None:
        """Unless that is where it was ended."""
        if self.state["pass"] != name:
            self.state |= {"pass": name, "key": "", "id": 0, "kept": [], "seen": 0}

    def tell(self, passes: float) -> None:
        """How far it is: so many passes, and a part of one."""
        total, merged = self.state["total"], self.state["merged"]
        self._job.progress(int(passes * total), len(self.names) * total, f"looks at prospects: {merged:,} merged")

    def renew_keys(self) -> None:
        """Of prospects that came in some other way, or were changed, or whose keys were made by older rules."""

        def work(connection: Any) -> tuple[int, int]:
            page = connection.execute(UNKEYED, {"id": self.state["id"]}).all()
            changed = []
            for prospect_id, email, name, company, *known in page:
                keys = keys_of({"email": email, "name": name, "company": company})
                if list(keys.values()) != known:
                    changed.append({"id": prospect_id, **keys})
            if changed:
                connection.execute_many(REKEY, changed)
            return (page[-1][0], len(page)) if page else (0, 0)

        while (done := self._job.write(work))[1]:
            self._keep("", done[0], done[1])

    def merge_by_mail(self) -> None:
        """The first of each address is who the others are merged into."""
        for page in self._pages("email_key"):
            pairs: list[Pair] = []
            for prospect_id, key, _ in page:
                if [key] == self.state["kept"][1:]:
                    pairs.append(Pair(self.state["kept"][0], prospect_id, "mail", 100.0))
                else:
                    self.state["kept"] = [prospect_id, key]
            self._merge(pairs)

    def merge_by_likeness(self) -> None:
        key = self.state["pass"]
        near = Neighbourhood(self._wanted.neighbours, self._wanted.likeness, load_ratio())
        near.settle(self._entries_again(key, self.state["kept"]))
        for page in self._pages(key):
            pairs = [pair for row in page for pair in near.welcome(entry(*row))]
            self.state["kept"] = near.ids
            self._merge(pairs)

    def _pages(self, key: str) -> Iterator[Sequence[tuple[int, str, str | None]]]:
        """What is done to a page is done when the next one is asked for: then it is kept how far that is."""
        statement = SORTED.format(key=key)
        while page := self._job.read(
            lambda connection: connection.execute(statement, {"key": self.state["key"], "id": self.state["id"]}).all()
        ):
            yield page
            self._keep(page[-1][1], page[-1][0], len(page))

    def _entries_again(self, key: str, ids: list[int]) -> list[Entry]:
        """In their old order; those that were merged meanwhile are gone."""
        if not ids:
            return []
        rows = self._job.read(lambda connection: connection.execute(AGAIN.format(key=key), ids=ids).all())
        return sorted((entry(*row) for row in rows), key=lambda each: ids.index(each.id))

    def _merge(self, pairs: list[Pair]) -> None:
        rest = iter(pairs)
        while some := list(islice(rest, MERGES_AT_ONCE)):
            now = self._job.now
            self.state["merged"] += self._job.write(
                lambda connection: merge(connection, some, self._job.id, now)  # noqa: B023 - called at once
            )

    def _keep(self, key: str, prospect_id: int, seen: int) -> None:
        self.state |= {"key": key, "id": prospect_id, "seen": self.state["seen"] + seen}
        share = min(1.0, self.state["seen"] / max(1, self.state["total"]))
        self.tell(self.number + share)
        self._job.checkpoint(self.state)
