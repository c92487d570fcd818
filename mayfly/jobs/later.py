"""Jobs that passed the door and are enqueued later, kept as JSON until then."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly import jsontext
from mayfly.jobs.enqueue import NewJob

KEPT = ("type", "payload", "lane", "max_attempts", "priority")


class Later(NamedTuple):
    """A job, and how many seconds after its turn has come it is due."""

    job: NewJob
    delay: float = 0.0

    def packed(self) -> dict[str, Any]:
        return {**{name: getattr(self.job, name) for name in KEPT}, "delay": self.delay}

    def due_from(self, now: datetime) -> NewJob:
        return self.job._replace(run_at=now + timedelta(seconds=self.delay))

    def with_field(self, name: str, value: object) -> "Later":
        """The same with one more field in its payload."""
        payload = {**jsontext.decode(self.job.payload), name: value}
        return self._replace(job=self.job._replace(payload=jsontext.encode(payload)))


def unpacked(kept: Mapping[str, Any]) -> Later:
    return Later(NewJob(**{name: kept[name] for name in KEPT}), kept["delay"])
