"""The channel of a post and its credential. The table has only the name of the setting with the credential."""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from handlers.boards.tables import PostRow
from handlers.http import HttpResponse, base_and_path, client_for_user_url
from mayfly import Cancel, Dead, setting

# Otherwise a user with the right to add channels could send any setting to their own server.
CREDENTIAL = r"CHANNEL_[A-Z0-9_]{1,56}"
URL = r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?][!-~]*)?"
RESPONSE_SECONDS = 15.0


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
        base, path = base_and_path(self.url)
        if below:
            path = f"{urlsplit(self.url).path.rstrip('/')}{below}"
        client = client_for_user_url(base, response_seconds=RESPONSE_SECONDS)
        return client.call("POST", path, body, {"Content-Type": "application/json", **headers})


def channel_of(post: PostRow) -> PostChannel:
    if post.kind is None or post.url is None or post.credential is None:
        raise Dead(f"there is no channel {post.channel_id}")
    if not re.fullmatch(URL, post.url):
        raise Dead(f"the URL of channel {post.channel_id} must begin with http:// or https:// and name a host")
    if not re.fullmatch(CREDENTIAL, post.credential):
        raise Dead("the credential of a channel must be the name of a setting that begins with CHANNEL_")
    secret = setting(post.credential, "")
    if not secret:
        raise Cancel(f"integration not configured: {post.credential}")
    if not (secret.isascii() and secret.isprintable()):  # the HTTP client would quote it in its error message
        raise Dead(f"{post.credential} must be one line of ASCII")
    return PostChannel(post.kind, post.url, secret)
