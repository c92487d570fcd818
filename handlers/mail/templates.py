"""Stored templates: subject and bodies are in the database once, for emails to many recipients."""

from typing import Any

from sqlalchemy import Select, select

from handlers.mail.payloads import Mail
from handlers.mail.tables import templates
from mayfly import Dead, Job


def find_template(tenant_id: str, key: str) -> Select[Any]:
    """Subject, text and html."""
    t = templates.c
    return select(t.subject, t.text_body, t.html_body).where(t.tenant_id == tenant_id, t.template_key == key)


def with_template(job: Job, mail: Mail) -> Mail:
    """Replace the key of a template with its texts."""
    if mail.template is None:
        return mail
    query = find_template(mail.tenant_id, mail.template)
    found = job.read(lambda connection: connection.execute(query).first())
    if found is None:
        raise Dead(f"there is no template {mail.template!r} in app_templates")
    subject, text, html = found
    return with_texts(mail, subject, text, html)


def with_texts(mail: Mail, subject: str, text: str | None, html: str | None) -> Mail:
    """Return the email with these templates; their context has the recipient's address and unsubscribe link."""
    context = {"email": mail.to, "unsubscribe": mail.unsubscribe, **(mail.context or {})}
    texts = {"template": None, "subject": subject, "text": text, "html": html, "context": context}
    return mail.model_copy(update=texts)
