"""Letters: subject and bodies that stand in the database once, for mails that go to many."""

from handlers.mail.payloads import Mail
from mayfly import Dead, Job

LOOK = "SELECT subject, text_body, html_body FROM app_letters WHERE letter_key = :letter_key"


def written_out(job: Job, mail: Mail) -> Mail:
    """With the letter's words, as templates, in place of its key."""
    if mail.letter is None:
        return mail
    asked = {"letter_key": mail.letter}
    found = job.read(lambda connection: connection.execute(LOOK, asked).first())
    if found is None:
        raise Dead(f"there is no letter {mail.letter!r} in app_letters")
    return saying(mail, *found)


def saying(mail: Mail, subject: str, text: str | None, html: str | None) -> Mail:
    """These templates; what the mail knows of its recipient anyway need not stand in its context."""
    context = {"email": mail.to, "unsubscribe": mail.unsubscribe, **(mail.context or {})}
    words = {"letter": None, "subject": subject, "text": text, "html": html, "context": context}
    return mail.model_copy(update=words)
