"""The handlers of the shop: they never run, but the form that enqueues a job is built from their payloads."""

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, Field

from mayfly import Job, handler


class Mail(BaseModel):
    to: str = Field(description="the recipient")
    template: Literal["welcome", "invoice", "reminder"] = "welcome"
    order: int | None = Field(default=None, ge=1)


class Picture(BaseModel):
    image: int = Field(ge=1)
    width: int = Field(default=640, ge=16, le=4096)


class Report(BaseModel):
    kind: Literal["daily", "monthly"]
    day: date | None = None
    send: bool = True


class Shop(BaseModel):
    api_key: str
    since: datetime
    pages: int = Field(default=1, ge=1)


@handler("sync_shop", lane="imports")
def sync_shop(_job: Job, _shop: Shop) -> None:
    """What another shop offers."""


@handler("send_email", lane="mail")
def send_email(_job: Job, _mail: Mail) -> None:
    """One mail to one customer."""


@handler("resize_image", lane="images")
def resize_image(_job: Job, _picture: Picture) -> None:
    """A picture in another size."""


@handler("build_report", lane="reports")
def build_report(_job: Job, _report: Report) -> None:
    """What was sold, as a file."""


@handler("charge_card", lane="payments")
def charge_card(_job: Job) -> None:
    """The money for an order."""


@handler("import_orders", lane="imports")
def import_orders(_job: Job) -> None:
    """What other shops have sold for us."""


@handler("send_digest", lane="mail")
def send_digest(_job: Job) -> None:
    """The week's news."""


@handler("metric_rollup")
def metric_rollup(_job: Job) -> None:
    """Add up what was counted."""
