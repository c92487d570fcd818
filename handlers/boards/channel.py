"""The channel of a post and its credential, which is a setting: the table has only its name."""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from handlers.boards.tables import PostRow
from handlers.http import HttpResponse, client_for_user_url
from mayfly import Cancel, Dead, setting

# Otherwise a user who may add channels could have any setting sent to a server of their own.
CREDENTIAL = r"CHANNEL_[A-Z0-9_]{1,56}"
URL = r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?][!-~]*)?"
ANSWER_SECONDS = 15.0


@dataclass(frozen=True)
class PostChannel:
    kind: str
    url: str
    secret: str = field(repr=False)

    @property
    def host(self) -> str:
        """For logs and errors: the path of a webhook is a secret."""
        return urlsplit(self.url).hostname or ""

    def post(self, below: str, body: bytes, headers: dict[str, str]) -> HttpResponse:
        """POST to its URL, or to a path below it."""
        parts = urlsplit(self.url)
        path = f"{parts.path.rstrip('/')}{below}" if below else urlunsplit(("", "", parts.path, parts.query, ""))
        client = client_for_user_url(f"{parts.scheme}://{parts.netloc}", answer_seconds=ANSWER_SECONDS)
        return client.call("POST", path, body, {"Content-Type": "application/json", **headers})


def channel_of(post: PostRow) -> PostChannel:
    if post.kind is None or post.url is None or post.credential is None:
        raise Dead(f"there is no channel {post.channel_id}")
    if not re.fullmatch(URL, post.url):
        raise Dead(f"channel {post.channel_id} has no URL that begins with http:// or https:// and names a host")
    if not re.fullmatch(CREDENTIAL, post.credential):
        raise Dead("the credential of a channel is the name of a setting that begins with CHANNEL_")
    secret = setting(post.credential, "")
    if not secret:
        raise Cancel(f"integration not configured: {post.credential}")
    if not (secret.isascii() and secret.isprintable()):  # the error message of the HTTP client would quote it
        raise Dead(f"{post.credential} must be one line of ASCII")
    return PostChannel(post.kind, post.url, secret)
