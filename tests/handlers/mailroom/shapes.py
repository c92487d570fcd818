"""Messages as they arrive: of good and bad programs, servers in many dialects, and attackers."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

OURS = "5f0c2a9e7d3b41c6a8f0e2d4b6c8a0e2f4061728@shop.example"  # the Message-ID of the email that is answered
BOB = "bob@example.com"


@dataclass(frozen=True)
class Shape:
    """A message, and what is expected of it."""

    raw: Callable[[], bytes]
    type: str = "plain"
    subject: str | None = None
    text: str | None = None  # a part of it
    html: str | None = None
    attachments: tuple[tuple[str, str], ...] = ()  # name and type
    defects: tuple[str, ...] = ()  # at least these
    is_flagged: bool | None = None  # None: not checked
    failures: tuple[tuple[str, str, str | None], ...] = ()  # address, kind and code of a bounce
    original: str | None = None  # the Message-ID that a report is about
    sender: str | None = BOB  # of the envelope


def message(
    body: bytes | str = "Dear Ann",
    *,
    headers: str = "",
    content_type: str = "text/plain; charset=utf-8",
    subject: bytes | str = "Hello",
    author: str = f"Bob <{BOB}>",
    message_id: str = "<one@example.com>",
    encoding: str = "",
) -> bytes:
    lines = [f"From: {author}", "To: Ann <ann@shop.example>", "Date: Mon, 4 May 2026 12:00:00 +0200"]
    lines += [f"Message-ID: {message_id}"] if message_id else []
    lines += ["MIME-Version: 1.0", f"Content-Type: {content_type}"]
    lines += [f"Content-Transfer-Encoding: {encoding}"] if encoding else []
    head = "\r\n".join([*lines, *headers.splitlines()]).encode("utf-8")
    titled = b"Subject: " + (subject if isinstance(subject, bytes) else subject.encode())
    content = body if isinstance(body, bytes) else body.replace("\n", "\r\n").encode()
    return head + b"\r\n" + titled + b"\r\n\r\n" + content


def parts(*inner: str | bytes, boundary: str = "cut", closed: bool = True) -> bytes:
    found = b""
    for each in inner:
        content = each if isinstance(each, bytes) else each.replace("\n", "\r\n").encode()
        found += f"--{boundary}\r\n".encode() + content + b"\r\n"
    return found + (f"--{boundary}--\r\n".encode() if closed else b"")


def multipart(*inner: str | bytes, kind: str = "mixed", closed: bool = True, **options: str) -> bytes:
    declared = f'multipart/{kind}; boundary="cut"'
    return message(parts(*inner, closed=closed), content_type=declared, **options)


def attached(name: str, content: bytes, content_type: str = "application/pdf") -> str:
    encoded = b64encode(content).decode()
    return (
        f'Content-Type: {content_type}; name="{name}"\nContent-Transfer-Encoding: base64\n'
        f'Content-Disposition: attachment; filename="{name}"\n\n{encoded}\n'
    )


TEXT_PART = "Content-Type: text/plain; charset=utf-8\n\nDear Ann\n"
HTML_PART = "Content-Type: text/html; charset=utf-8\n\n<p>Dear <b>Ann</b></p>\n"


# --- bounces ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dsn:
    """A delivery status notification (RFC 3464)."""

    action: str = "failed"
    status: str = "5.1.1"
    diagnostic: str = "smtp; 550 5.1.1 <bob@example.com>: Recipient address rejected: User unknown"
    recipient: str = f"rfc822; {BOB}"
    returned: str = f"Content-Type: message/rfc822\n\nFrom: ann@shop.example\nMessage-ID: <{OURS}>\n\nDear Bob\n"
    subject: str = "Undelivered Mail Returned to Sender"
    author: str = "Mail Delivery System <MAILER-DAEMON@mx.example.com>"
    more: tuple[str, ...] = field(default=())

    def raw(self) -> bytes:
        status = (
            "Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.com\n\n"
            f"Final-Recipient: {self.recipient}\nAction: {self.action}\nStatus: {self.status}\n"
            f"Diagnostic-Code: {self.diagnostic}\n"
        )
        status += "".join(f"\n{block}\n" for block in self.more)
        declared = 'multipart/report; report-type=delivery-status; boundary="cut"'
        explanation = (
            "Content-Type: text/plain\n\nI'm sorry to have to inform you that your message was not delivered.\n"
        )
        inner = [explanation, status, *([self.returned] if self.returned else [])]
        return message(
            parts(*inner),
            content_type=declared,
            subject=self.subject,
            author=self.author,
            message_id="<dsn@example.com>",
        )


def text_bounce(
    body: str, author: str = "Mail Delivery Subsystem <MAILER-DAEMON@mx.example.com>", **options: str
) -> bytes:
    return message(body, author=author, message_id="<text-bounce@example.com>", **options)


POSTFIX = f"""\
This is the Postfix program at host mx.example.com.

I'm sorry to have to inform you that your message could not be delivered.

<{BOB}>: host mail.example.com[192.0.2.1] said: 550 5.1.1 <{BOB}>: Recipient address rejected: User unknown

Message-ID: <{OURS}>
"""
QMAIL = f"""\
Hi. This is the qmail-send program at example.com.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

<{BOB}>:
Sorry, no mailbox here by that name. (#5.1.1)

--- Below this line is a copy of the message.

Return-Path: <ann@shop.example>
Message-ID: <{OURS}>
Subject: Hi

Dear Bob
"""
EXIM = f"""\
This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  {BOB}
    host mail.example.com [192.0.2.1]: 550 Unknown user

------ This is a copy of the message, including all the headers. ------

Message-ID: <{OURS}>
From: ann@shop.example
"""
EXCHANGE = f"""\
Your message

  To:      {BOB}
  Subject: Hi

did not reach the following recipient(s):

{BOB} on Mon, 4 May 2026 12:00:00 +0200
    The recipient name is not recognized

Message-ID: <{OURS}>
"""
YAHOO = f"""\
Message from yahoo.com.
Unable to deliver message to the following address(es).

<{BOB}>:
This user doesn't have a yahoo.com account ({BOB}) [0]

--- Original message follows.

Message-ID: <{OURS}>
"""
NO_DIALECT = f"Your message to {BOB} was rejected: 550 we do not like it.\n\nMessage-ID: <{OURS}>\n"


def arf(kind: str = "abuse", returned: str = f"Message-ID: <{OURS}>\nSubject: Hi\n\nDear Bob") -> bytes:
    """A complaint (RFC 5965)."""
    report = f"Content-Type: message/feedback-report\n\nFeedback-Type: {kind}\nUser-Agent: Loop/1.0\nVersion: 1\n"
    returned = f"Content-Type: message/rfc822\n\nFrom: ann@shop.example\n{returned}\n"
    return message(
        parts("Content-Type: text/plain\n\nThis is an abuse report.\n", report, returned),
        content_type='multipart/report; report-type=feedback-report; boundary="cut"',
        author="Feedback <fbl@isp.example>",
        subject="FW: Hi",
        message_id="<arf@isp.example>",
    )


def deep(levels: int, kind: str) -> bytes:
    """Parts in parts, or messages in messages."""
    raw = b"Content-Type: text/plain\r\n\r\nat the bottom\r\n"
    for level in range(levels):
        if kind == "multipart":
            boundary = f"b{level}"
            head = f"Content-Type: multipart/mixed; boundary={boundary}\r\n\r\n--{boundary}\r\n".encode()
            raw = head + raw + f"\r\n--{boundary}--\r\n".encode()
        else:
            raw = b"Content-Type: message/rfc822\r\n\r\n" + raw
    return b"From: bob@example.com\r\nMessage-ID: <deep@example.com>\r\n" + raw


def large_attachment(size_bytes: int = 25 << 20) -> bytes:
    return multipart(TEXT_PART, attached("film.mp4", bytes(1024) * (size_bytes >> 10), "video/mp4"))


ANSWER = f"In-Reply-To: <{OURS}>\nReferences: <{OURS}>"
AUTO = partial(message, "I am not there", headers=f"{ANSWER}\nAuto-Submitted: auto-replied")
answering = partial(message, "Yes, please", subject="Re: Hi")
HARD = ((BOB, "hard", "5.1.1"),)

SHAPES: dict[str, Shape] = {
    # character sets
    "utf-8": Shape(partial(message, "Grüße aus Köln"), text="Grüße aus Köln", is_flagged=False),
    "latin-1": Shape(
        partial(message, "Grüße".encode("latin-1"), content_type="text/plain; charset=iso-8859-1"),
        text="Grüße",
        is_flagged=False,
    ),
    "windows-1252": Shape(
        partial(message, "“5 €”".encode("cp1252"), content_type='text/plain; charset="windows-1252"'), text="“5 €”"
    ),
    "koi8-r": Shape(
        partial(message, "Привет".encode("koi8-r"), content_type="text/plain; charset=koi8-r"),
        text="Привет",
    ),
    "gb18030": Shape(
        partial(message, "你好".encode("gb18030"), content_type="text/plain; charset=gb18030"), text="你好"
    ),
    "shift_jis": Shape(
        partial(message, "こんにちは".encode("shift_jis"), content_type="text/plain; charset=shift_jis"),
        text="こんにちは",
    ),
    "utf-16": Shape(partial(message, "Hi".encode("utf-16"), content_type="text/plain; charset=utf-16"), text="Hi"),
    "utf-7": Shape(partial(message, b"Hi +AOQ-", content_type="text/plain; charset=utf-7"), text="Hi ä"),
    "unknown charset": Shape(
        partial(message, "Grüße", content_type="text/plain; charset=klingon"),
        text="Grüße",
        defects=("charset: klingon",),
    ),
    "wrong charset": Shape(partial(message, "Grüße".encode("latin-1")), text="Grüße", defects=("charset: utf-8",)),
    "ascii with 8 bits": Shape(partial(message, "Grüße", content_type="text/plain; charset=us-ascii"), text="Grüße"),
    "no charset": Shape(partial(message, "Grüße", content_type="text/plain"), text="Grüße"),
    "zero bytes": Shape(partial(message, b"a\x00b\xff"), text="a�bÿ"),
    "quoted-printable": Shape(partial(message, "Gr=C3=BC=C3=9Fe=\n!", encoding="quoted-printable"), text="Grüße!"),
    "broken quoted-printable": Shape(partial(message, "100 =% sure =ZZ", encoding="quoted-printable"), text="sure"),
    "base64": Shape(partial(message, b64encode("Grüße".encode()), encoding="base64"), text="Grüße"),
    "broken base64": Shape(partial(message, "R3LDvMOfZ!!Q=", encoding="base64"), is_flagged=True),
    "unknown encoding": Shape(partial(message, "Dear Ann", encoding="rot13"), text="Dear Ann"),
    "encoded subject": Shape(partial(message, subject="=?utf-8?B?R3LDvMOfZQ==?="), subject="Grüße"),
    "folded encoded subject": Shape(
        partial(message, subject="=?utf-8?q?Gr=C3=BC?=\r\n =?utf-8?q?=C3=9Fe?="), subject="Grüße"
    ),
    "raw 8-bit subject": Shape(partial(message, subject="Grüße"), subject="Grüße"),
    "raw latin-1 subject": Shape(partial(message, subject="Grüße".encode("latin-1")), subject="Grüße"),
    "broken encoded subject": Shape(partial(message, subject="=?utf-8?B?R3LD?= and =?x?y?z?="), is_flagged=None),
    # structure
    "text and html": Shape(
        partial(multipart, TEXT_PART, HTML_PART, kind="alternative"),
        text="Dear Ann",
        html="<b>Ann</b>",
        is_flagged=False,
    ),
    "html only": Shape(
        partial(
            message, "<p>Dear Ann</p><p>Click <a href='https://x.example/a'>here</a></p>", content_type="text/html"
        ),
        text="Click here (https://x.example/a)",
    ),
    "text only": Shape(partial(message, "a < b\n\nhttps://x.example/"), html='<a href="https://x.example/">'),
    "empty body": Shape(partial(message, ""), text=""),
    "no body": Shape(lambda: b"From: bob@example.com\r\nMessage-ID: <one@example.com>", text=""),
    "empty": Shape(lambda: b"", is_flagged=True),
    "only a line break": Shape(lambda: b"\n", is_flagged=True),
    "no headers": Shape(lambda: b"\r\nDear Ann\r\n", text="Dear Ann", is_flagged=True),
    "no message id": Shape(partial(message, message_id=""), defects=("no Message-ID",)),
    "empty message id": Shape(partial(message, message_id="<>"), is_flagged=None),
    "message id without brackets": Shape(partial(message, message_id="one@example.com")),
    "endless message id": Shape(partial(message, message_id=f"<{'a' * 900}@example.com>")),
    "two froms": Shape(partial(message, headers="From: eve@example.com")),
    "no from": Shape(lambda: b"Message-ID: <one@example.com>\r\n\r\nDear Ann", defects=("no From",)),
    "unix line ends": Shape(lambda: message().replace(b"\r\n", b"\n"), text="Dear Ann"),
    "old mac line ends": Shape(lambda: message().replace(b"\r\n", b"\r"), is_flagged=None),
    "mbox line": Shape(lambda: b"From bob Mon May  4 12:00:00 2026\r\n" + message(), text="Dear Ann"),
    "header without colon": Shape(lambda: b"this is no header\r\n" + message(), is_flagged=True),
    "unclosed boundary": Shape(
        partial(multipart, TEXT_PART, closed=False), text="Dear Ann", defects=("CloseBoundaryNotFoundDefect",)
    ),
    "boundary that does not occur": Shape(
        partial(message, "Dear Ann", content_type="multipart/mixed; boundary=other"),
        defects=("StartBoundaryNotFoundDefect",),
    ),
    "multipart without boundary": Shape(
        partial(message, "Dear Ann", content_type="multipart/mixed"), defects=("NoBoundaryInMultipartDefect",)
    ),
    "empty multipart": Shape(partial(multipart), is_flagged=None),
    "nested multiparts": Shape(partial(deep, 20, "multipart"), text="at the bottom"),
    "100 nested multiparts": Shape(partial(deep, 100, "multipart"), defects=("parts were skipped",)),
    "2,000 nested multiparts": Shape(partial(deep, 2000, "multipart"), is_flagged=True),
    "1,000 nested messages": Shape(partial(deep, 1000, "message"), is_flagged=True),
    "300 headers too many": Shape(
        partial(message, headers="\n".join(f"X-Number: {n}" for n in range(600))), defects=("headers were cut",)
    ),
    "endless header": Shape(partial(message, headers=f"X-Long: {'a' * 100_000}"), defects=("headers were cut",)),
    "endless text": Shape(partial(message, "äöü" * 500_000), defects=("text was cut",)),
    "2,000 parts": Shape(partial(multipart, *["\n\nx\n"] * 2000), defects=("parts were skipped",)),
    # attachments
    "attachment": Shape(
        partial(multipart, TEXT_PART, attached("offer.pdf", b"%PDF")),
        text="Dear Ann",
        attachments=(("offer.pdf", "application/pdf"),),
    ),
    "attachment with encoded name": Shape(
        partial(multipart, TEXT_PART, attached("=?utf-8?q?Gr=C3=BC=C3=9Fe.pdf?=", b"%PDF")),
        attachments=(("Grüße.pdf", "application/pdf"),),
    ),
    "attachment with a path": Shape(
        partial(multipart, TEXT_PART, attached("..\\..\\etc/passwd", b"x")),
        attachments=(("passwd", "application/pdf"),),
    ),
    "attached text": Shape(
        partial(multipart, TEXT_PART, attached("notes.txt", b"a note", "text/plain")),
        text="Dear Ann",
        attachments=(("notes.txt", "text/plain"),),
    ),
    "inline image": Shape(
        partial(
            multipart,
            HTML_PART,
            "Content-Type: image/png\nContent-ID: <logo>\nContent-Disposition: inline\n\nPNG\n",
            kind="related",
        ),
        html="<b>Ann</b>",
        attachments=(("", "image/png"),),
    ),
    "winmail.dat": Shape(
        partial(multipart, TEXT_PART, attached("winmail.dat", b"\x78\x9f\x3e\x22", "application/ms-tnef")),
        attachments=(("winmail.dat", "application/ms-tnef"),),
    ),
    "forwarded message": Shape(
        partial(multipart, TEXT_PART, "Content-Type: message/rfc822\n\nSubject: Inner\n\nInner text\n"),
        text="Dear Ann",
        attachments=(("message.eml", "message/rfc822"),),
    ),
    "calendar": Shape(
        partial(multipart, TEXT_PART, "Content-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\n"),
        attachments=(("", "text/calendar"),),
    ),
    "signed": Shape(
        partial(multipart, TEXT_PART, attached("signature.asc", b"x", "application/pgp-signature"), kind="signed"),
        text="Dear Ann",
        attachments=(("signature.asc", "application/pgp-signature"),),
    ),
    "only an attachment": Shape(
        partial(message, b64encode(b"%PDF"), content_type='application/pdf; name="a.pdf"', encoding="base64"),
        text="",
        attachments=(("a.pdf", "application/pdf"),),
    ),
    # replies and automatic replies
    "reply": Shape(partial(answering, headers=ANSWER), type="reply"),
    "reply without references": Shape(partial(answering, headers=f"In-Reply-To: <{OURS}>"), type="reply"),
    "reply with references only": Shape(partial(answering, headers=f"References: <a@b> <{OURS}>"), type="reply"),
    "forged in-reply-to": Shape(
        partial(answering, headers=ANSWER, author="Eve <eve@evil.example>"), type="reply", sender="eve@evil.example"
    ),
    "broken in-reply-to": Shape(partial(answering, headers="In-Reply-To: your message of Monday"), type="plain"),
    "auto-reply of RFC 3834": Shape(AUTO, type="auto_reply"),
    "auto-generated": Shape(partial(message, headers="Auto-Submitted: auto-generated"), type="auto_reply"),
    "auto-submitted: no": Shape(partial(answering, headers=f"{ANSWER}\nAuto-Submitted: no"), type="reply"),
    "exchange out of office": Shape(
        partial(message, subject="Automatic reply: Hi", headers=f"{ANSWER}\nX-Auto-Response-Suppress: All"),
        type="auto_reply",
    ),
    "precedence: auto_reply": Shape(partial(message, headers=f"{ANSWER}\nPrecedence: auto_reply"), type="auto_reply"),
    "x-autoreply": Shape(partial(message, headers=f"{ANSWER}\nX-Autoreply: yes"), type="auto_reply"),
    "vacation by subject": Shape(
        partial(message, subject="Abwesenheitsnotiz: Hi", headers=ANSWER), type="auto_reply"
    ),
    "empty envelope sender": Shape(partial(answering, headers=ANSWER), type="auto_reply", sender=""),
    "mailing list": Shape(partial(message, headers="List-Id: <news.example.com>"), type="auto_reply"),
    "read receipt": Shape(
        partial(
            message,
            parts(TEXT_PART, "Content-Type: message/disposition-notification\n\nDisposition: displayed\n"),
            content_type='multipart/report; report-type=disposition-notification; boundary="cut"',
            headers=ANSWER,
        ),
        type="auto_reply",
    ),
    # bounces
    "dsn": Shape(Dsn().raw, type="bounce", failures=HARD, original=OURS),
    "dsn of a full mailbox": Shape(
        Dsn(status="5.2.2", diagnostic="smtp; 552 5.2.2 Mailbox full").raw,
        type="bounce",
        failures=((BOB, "soft", "5.2.2"),),
        original=OURS,
    ),
    "dsn after days": Shape(
        Dsn(status="4.4.1", diagnostic="smtp; 451 4.4.1 timeout").raw,
        type="bounce",
        failures=((BOB, "soft", "4.4.1"),),
    ),
    "dsn of a policy": Shape(
        Dsn(status="5.7.1", diagnostic="smtp; 554 5.7.1 spam").raw, type="bounce", failures=((BOB, "soft", "5.7.1"),)
    ),
    "dsn of an unknown domain": Shape(
        Dsn(status="5.4.4", diagnostic="X-Postfix; Host not found").raw,
        type="bounce",
        failures=((BOB, "hard", "5.4.4"),),
    ),
    "dsn with a general status": Shape(
        Dsn(status="5.0.0", diagnostic="smtp; 550 no such user").raw,
        type="bounce",
        failures=((BOB, "hard", "5.0.0"),),
    ),
    "dsn of a delay": Shape(Dsn(action="delayed", status="4.0.0").raw, type="bounce", failures=()),
    "dsn of a success": Shape(Dsn(action="delivered", status="2.0.0").raw, type="bounce", failures=()),
    "dsn with headers only": Shape(
        Dsn(returned=f"Content-Type: text/rfc822-headers\n\nFrom: a@shop.example\nMessage-ID: <{OURS}>\n").raw,
        type="bounce",
        failures=HARD,
        original=OURS,
    ),
    "dsn without the message": Shape(Dsn(returned="").raw, type="bounce", failures=HARD),
    "dsn without status": Shape(
        Dsn(status="", diagnostic="smtp; 550 5.1.1 unknown").raw, type="bounce", failures=HARD
    ),
    "dsn of two recipients": Shape(
        Dsn(more=("Final-Recipient: rfc822; eve@example.com\nAction: failed\nStatus: 4.2.2",)).raw,
        type="bounce",
        failures=((BOB, "hard", "5.1.1"), ("eve@example.com", "soft", "4.2.2")),
    ),
    "dsn with an angle address": Shape(Dsn(recipient=f"rfc822;<{BOB.upper()}>").raw, type="bounce", failures=HARD),
    "dsn of opensmtpd": Shape(Dsn(action="error").raw, type="bounce", failures=HARD),
    "dsn of exchange online": Shape(
        Dsn(
            status="5.1.10",
            diagnostic="smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound; not found by SMTP address",
            subject="Undeliverable: Hi",
            author="postmaster@example.onmicrosoft.com",
        ).raw,
        type="bounce",
        failures=((BOB, "hard", "5.1.10"),),
    ),
    "postfix in text": Shape(
        partial(text_bounce, POSTFIX, subject="Undelivered Mail Returned to Sender"),
        type="bounce",
        failures=HARD,
        original=OURS,
    ),
    "qmail": Shape(
        partial(text_bounce, QMAIL, subject="failure notice"), type="bounce", failures=HARD, original=OURS, sender=""
    ),
    "exim": Shape(
        partial(text_bounce, EXIM, subject="Mail delivery failed", headers=f"X-Failed-Recipients: {BOB}"),
        type="bounce",
        failures=((BOB, "hard", None),),
        original=OURS,
    ),
    "exchange in text": Shape(
        partial(text_bounce, EXCHANGE, subject="Undeliverable: Hi", author="postmaster@example.com"),
        type="bounce",
        original=OURS,
    ),
    "yahoo": Shape(
        partial(text_bounce, YAHOO, subject="Delivery failure", author="MAILER-DAEMON@yahoo.com"),
        type="bounce",
        failures=((BOB, "hard", None),),
        original=OURS,
    ),
    "bounce in no known dialect": Shape(
        partial(text_bounce, NO_DIALECT, subject="Undeliverable mail"), type="bounce", original=OURS
    ),
    # complaints
    "arf": Shape(arf, type="complaint", original=OURS),
    "arf without a message id": Shape(partial(arf, returned="Subject: Hi\n\nDear Bob"), type="complaint"),
    "arf: not spam": Shape(partial(arf, "not-spam"), type="complaint", original=OURS),
}
