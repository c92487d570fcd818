"""Mails of boards, digests and invoices arrive once, through real runners and a real SMTP server."""

import json

from tests.handlers.community import Community
from tests.handlers.mail.invoices import make_invoice
from tests.handlers.mail.servers import post_office
from tests.process.installation import Installation


def test_members_readers_and_customers_get_one_mail_each(embedded: Installation) -> None:
    """Although everything is enqueued twice. Bulk mail, not an invoice, can be unsubscribed with one click."""
    files = embedded.home / "files"
    with post_office(None) as post:
        embedded.settings = {
            "SMTP_ACCOUNTS": f"smtp://127.0.0.1:{post.port}?from=ann@shop.example&tls=none",
            "MAIL_ATTACHMENTS": str(files),
            "INVOICE_SELLER": "Shop Ltd",
            "UNSUBSCRIBE_URL": "https://shop.example/unsubscribe?who={token}",
            "UNSUBSCRIBE_SECRET": "s3cret",
        }
        community = Community(embedded.url)
        community.board(7, members=(1,))
        community.board(8, members=(2,))
        community.published(1, 8)
        for _ in range(2):
            embedded.enqueue("close_board", '{"board": 7}', lane="close_board")
            embedded.enqueue("send_digest", lane="send_digest")
            embedded.enqueue("send_invoice", json.dumps(make_invoice()), lane="send_email")

        while embedded.statuses().keys() & {"pending", "processing"}:
            embedded.dispatch()

        mails = dict(post.taken)
        subjects = {recipient: message["Subject"] for recipient, message in post.taken}
        one_click = {recipient: message["List-Unsubscribe-Post"] for recipient, message in post.taken}
        [attached] = mails["bob@example.com"].iter_attachments()
        [printed] = files.glob("invoices/*/*.pdf")
        assert (set(embedded.statuses()), len(post.taken)) == ({"done"}, 3)
        assert subjects == {
            "1@example.com": "The board “Board 7” was closed",
            "2@example.com": "1 new post on your boards",
            "bob@example.com": f"Invoice {printed.stem}",
        }
        assert one_click == {
            "1@example.com": "List-Unsubscribe=One-Click",
            "2@example.com": "List-Unsubscribe=One-Click",
            "bob@example.com": None,
        }
        assert mails["2@example.com"]["List-Unsubscribe"].startswith("<https://shop.example/unsubscribe?who=")
        assert (attached.get_content_type(), attached.get_content()) == ("application/pdf", printed.read_bytes())
