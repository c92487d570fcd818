"""Decide whether a refusal means that the mailbox does not exist: then no more mail is sent to it. Pure."""

import re

# RFC 3463: bad mailbox, host, syntax, moved, null MX; disabled.
BAD_ADDRESS_CODES = ("5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1")
# Unknown recipient, for servers without enhanced status codes.
UNKNOWN_RECIPIENT_CODES = ("550", "551", "553")
REPLY = re.compile(r"(?P<code>5[0-9]{2})(?: (?P<enhanced>5\.[0-9]{1,3}\.[0-9]{1,3})\b)?")


def is_bounce(answer: str, to_recipient: bool) -> bool:
    """`answer` is the server's reply, code first. A refusal of the sender or the message is not a bounce."""
    reply = REPLY.match(answer)
    if reply is None:
        return False
    if reply["enhanced"]:
        return reply["enhanced"] in BAD_ADDRESS_CODES
    return to_recipient and reply["code"] in UNKNOWN_RECIPIENT_CODES
