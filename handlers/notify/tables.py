"""The subscriptions of people: where each wants to be told. What is in a row is as good as a password."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from mayfly import Job

OF_PERSON = "SELECT id FROM app_subscriptions WHERE person_id = :person ORDER BY id"
FIND = "SELECT id, kind, url, p256dh, auth, token FROM app_subscriptions WHERE id = :id AND person_id = :person"
# By its URL too: whoever has subscribed anew in the meantime stays.
REMOVE = "DELETE FROM app_subscriptions WHERE id = :id AND url = :url"


@dataclass(frozen=True)
class Subscription:
    id: int
    kind: str
    url: str = field(repr=False)
    p256dh: str | None = field(default=None, repr=False)
    auth: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """Empty where the URL is none."""
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""

    @property
    def shown(self) -> str:
        """What others may see of it."""
        return f"{self.kind} {self.id} at {self.host}"


def subscriptions_of(job: Job, person: int) -> list[int]:
    return list(job.read(lambda connection: connection.execute(OF_PERSON, {"person": person}).scalars()))


def find_subscription(job: Job, number: int, person: int) -> Subscription | None:
    row: Any = job.read(lambda connection: connection.execute(FIND, {"id": number, "person": person}).first())
    return None if row is None else Subscription(*row)


def remove(job: Job, subscription: Subscription) -> None:
    gone = {"id": subscription.id, "url": subscription.url}
    job.write(lambda connection: connection.execute(REMOVE, gone))
