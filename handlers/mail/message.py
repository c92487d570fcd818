"""Build the message: render templates in a sandbox, read attachments, prevent header injection."""

from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from functools import lru_cache
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Any

from handlers.mail.payloads import Attachment, Mail
from mayfly import Dead, setting

MAX_ATTACHMENT_BYTES = 20 << 20  # in total


def compose(mail: Mail, sender: str, key: str) -> bytes:
    """The same key yields the same Message-ID, so that receivers can detect duplicates."""
    subject, text, html = (_rendered(mail, part) for part in ("subject", "text", "html"))
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"] = sender, mail.to
    message["Subject"] = _header(subject or "")
    message["Date"] = formatdate(usegmt=True)
    message["Message-ID"] = f"<{message_id_of(key, sender)}>"
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


def message_id_of(key: str, sender: str) -> str:
    """Without angle brackets."""
    return f"{token_of(key)}@{sender.rpartition('@')[2]}"


def token_of(key: str) -> str:
    """Identifies an email in its Message-ID, and in the addresses that its bounces and replies go to.

    Without MAIL_TOKEN_SECRET it could be computed from the id of a job.
    """
    return digest(setting("MAIL_TOKEN_SECRET", "").encode(), key.encode(), sha256).hex()[:40]


def _unsubscribe_headers(link: str | None) -> bytes:
    """Add the headers of RFC 2369 and 8058. As bytes, because the email package folds and encodes long URLs."""
    if link is None:
        return b""
    one_click = "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n" if link.startswith("https://") else ""
    return f"List-Unsubscribe: <{link}>\r\n{one_click}".encode("ascii")


def _header(text: str) -> str:
    """Check the subject again: it may be a rendered template."""
    if not text.isprintable():
        raise Dead("the rendered subject is not one line of printable characters")
    return text


def _rendered(mail: Mail, part: str) -> str | None:
    source: str | None = getattr(mail, part)
    return source if source is None or mail.context is None else render(source, mail.context, part)


def render(source: str, context: dict[str, Any], part: str) -> str:
    """A variable that the context does not have is an error."""
    is_html = part == "html"
    _environment, template_error = _jinja(is_html)
    try:
        return str(_template(source, is_html).render(context))
    except (template_error, TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        raise Dead(f"the template of the {part} cannot be rendered: {error}") from error


@lru_cache(maxsize=16)  # of a campaign or a blast: compiling takes longer than rendering
def _template(source: str, is_html: bool) -> Any:
    environment, _template_error = _jinja(is_html)
    return environment.from_string(source)


def variables_of(*sources: str | None) -> set[str]:
    """The names that these templates use; empty for templates with an error, which rendering reports."""
    environment, template_error = _jinja(autoescape=False)
    from jinja2.meta import find_undeclared_variables  # after the check that it is installed

    try:
        return {name for each in sources if each for name in find_undeclared_variables(environment.parse(each))}
    except template_error:
        return set()


@lru_cache
def _jinja(autoescape: bool) -> tuple[Any, type[Exception]]:
    """A sandboxed environment, and the class of its errors."""
    try:
        from jinja2 import StrictUndefined, TemplateError  # slow to import, and most emails have no context
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError:
        raise Dead("emails with a context need Jinja2: pip install 'mayfly-jobs[mail]'") from None
    return ImmutableSandboxedEnvironment(autoescape=autoescape, undefined=StrictUndefined), TemplateError


def _attach(message: EmailMessage, attachments: list[Attachment]) -> None:
    room = MAX_ATTACHMENT_BYTES
    for each in attachments:
        content = _content(each, room)
        room -= len(content)
        kind, _, subkind = each.type.partition("/")
        name = each.name or Path(each.path).name
        message.add_attachment(content, maintype=kind, subtype=subkind, filename=name)


def _content(attachment: Attachment, room: int) -> bytes:
    """Read a file; with links and dots resolved, it must be below MAIL_ATTACHMENTS."""
    base = Path(setting("MAIL_ATTACHMENTS", "/nonexistent")).resolve()
    path = (base / attachment.path).resolve()
    if not path.is_relative_to(base) or not path.is_file():
        raise Dead(f"there is no attachment {attachment.path!r} in MAIL_ATTACHMENTS")
    if path.stat().st_size > room:
        raise Dead(f"the attachments have more than {MAX_ATTACHMENT_BYTES:,} bytes")
    return path.read_bytes()
