"""Build the message of a mail: render templates in a sandbox, read attachments, prevent header injection."""

from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from typing import Any

from handlers.mail.payloads import Attachment, Mail
from mayfly import Dead, setting

MAX_ATTACHMENT_BYTES = 20 << 20  # of all together


def compose(mail: Mail, sender: str, key: str) -> bytes:
    """The same key gives the same Message-ID, so that receivers can detect duplicates."""
    subject, text, html = (_rendered(mail, part) for part in ("subject", "text", "html"))
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"] = sender, mail.to
    message["Subject"] = _header(subject or "")
    message["Date"] = formatdate(usegmt=True)
    message["Message-ID"] = f"<{sha256(key.encode()).hexdigest()[:40]}@{sender.rpartition('@')[2]}>"
    if mail.reply_to is not None:
        message["Reply-To"] = mail.reply_to
    if html is None or text is not None:
        message.set_content(text or "")
    if html is not None and text is not None:
        message.add_alternative(html, subtype="html")
    elif html is not None:
        message.set_content(html, subtype="html")
    _attach(message, mail.attachments)
    return _unsubscribe_headers(mail.unsubscribe) + message.as_bytes()


def _unsubscribe_headers(link: str | None) -> bytes:
    """RFC 2369 and 8058. As bytes, because the email package folds and encodes long URLs."""
    if link is None:
        return b""
    one_click = "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n" if link.startswith("https://") else ""
    return f"List-Unsubscribe: <{link}>\r\n{one_click}".encode("ascii")


def _header(text: str) -> str:
    """Checked again, because a template may have rendered it."""
    if not text.isprintable():
        raise Dead("the subject, once rendered, is more than one line of printable characters")
    return text


def _rendered(mail: Mail, part: str) -> str | None:
    source: str | None = getattr(mail, part)
    if source is None or mail.context is None:
        return source
    try:
        from jinja2 import StrictUndefined, TemplateError  # slow to import, and most mails have no context
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError:
        raise Dead("mails with a context need Jinja2: pip install 'mayfly-jobs[mail]'") from None
    environment = ImmutableSandboxedEnvironment(autoescape=part == "html", undefined=StrictUndefined)
    context: dict[str, Any] = mail.context
    try:
        return environment.from_string(source).render(context)
    except (TemplateError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        raise Dead(f"the template of its {part} cannot be rendered: {error}") from error


def _attach(message: EmailMessage, attachments: list[Attachment]) -> None:
    room = MAX_ATTACHMENT_BYTES
    for each in attachments:
        content = _content(each, room)
        room -= len(content)
        kind, _, subkind = each.type.partition("/")
        name = each.name or Path(each.path).name
        message.add_attachment(content, maintype=kind, subtype=subkind, filename=name)


def _content(attachment: Attachment, room: int) -> bytes:
    """Of a file below MAIL_ATTACHMENTS, after links and dots are resolved."""
    base = Path(setting("MAIL_ATTACHMENTS", "/nonexistent")).resolve()
    path = (base / attachment.path).resolve()
    if not path.is_relative_to(base) or not path.is_file():
        raise Dead(f"there is no attachment {attachment.path!r} in MAIL_ATTACHMENTS")
    if path.stat().st_size > room:
        raise Dead(f"its attachments have more than {MAX_ATTACHMENT_BYTES:,} bytes")
    return path.read_bytes()
