"""Decide whether a refusal means that there is no such mailbox, so that nobody should be sent there again. Pure."""

import re

# Of RFC 3463: no such mailbox, host, syntax, moved away, takes no mail at all; switched off.
ADDRESS_IS_WRONG = ("5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1")
# What servers without such a code say of a recipient that they do not have.
UNKNOWN_RECIPIENT = ("550", "551", "553")
SAID = re.compile(r"(?P<code>5[0-9]{2})(?: (?P<enhanced>5\.[0-9]{1,3}\.[0-9]{1,3})\b)?")


def is_bounce(answer: str, to_recipient: bool) -> bool:
    """`answer` is as the server gave it, code first; a refusal of the sender, the text or us is no bounce."""
    said = SAID.match(answer)
    if said is None:
        return False
    if said["enhanced"]:
        return said["enhanced"] in ADDRESS_IS_WRONG
    return to_recipient and said["code"] in UNKNOWN_RECIPIENT
