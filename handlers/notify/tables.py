"""The subscriptions of people. URL, keys and token are secrets: anyone who has them can send."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sqlalchemy import Column, Connection, String, Table, delete, select

from handlers.schema import Id, UtcTimestamp, metadata
from mayfly import Job

subscriptions = Table(
    "app_subscriptions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("person_id", Id, nullable=False),
    Column("kind", String(16), nullable=False),  # webpush, webhook or ntfy
    Column("url", String(750), nullable=False),
    Column("p256dh", String(190)),  # public key of the browser, base64url
    Column("auth", String(190)),  # secret shared with the browser, base64url
    Column("token", String(190)),  # for ntfy
    Column("created_at", UtcTimestamp, nullable=False),
)


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
        """Empty if the URL is malformed."""
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""

    @property
    def label(self) -> str:
        """The name for logs and errors, without secrets."""
        return f"{self.kind} {self.id} at {self.host}"


def subscription_ids(job: Job, person_id: int) -> list[int]:
    of_person = subscriptions.c.person_id == person_id
    query = select(subscriptions.c.id).where(of_person).order_by(subscriptions.c.id)
    return job.read(lambda connection: list(connection.scalars(query)))


def find_subscription(job: Job, subscription_id: int, person_id: int) -> Subscription | None:
    c = subscriptions.c
    query = select(c.id, c.kind, c.url, c.p256dh, c.auth, c.token).where(
        c.id == subscription_id, c.person_id == person_id
    )

    def find(connection: Connection) -> Subscription | None:
        row = connection.execute(query).first()
        return None if row is None else Subscription(*row)

    return job.read(find)


def delete_subscription(job: Job, subscription: Subscription) -> None:
    """Delete by id and URL: a person that has subscribed again in the meantime stays subscribed."""
    c = subscriptions.c
    gone = delete(subscriptions).where(c.id == subscription.id, c.url == subscription.url)
    job.write(lambda connection: connection.execute(gone))
