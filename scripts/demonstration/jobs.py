"""The jobs that the application would enqueue in these two minutes."""

from mayfly import batch, chain, enqueue, enqueue_many
from scripts.demonstration.home import Home
from scripts.demonstration.sample import Sample

INVOICES, NOTIFIED, SUMMARIZED, ENRICHED = 5, 20, 3, 20
FIRST_PROSPECTS = "SELECT id FROM app_prospects ORDER BY id LIMIT :count"
IMPORTED = "SELECT status FROM mayfly_jobs WHERE type = 'import_prospects'"
TEMPLATE = {
    "subject": "The summer feast, {{ name }}",
    "text": "Dear {{ name }},\n\nwe meet on the first Saturday of June.\n\nUnsubscribe: {{ unsubscribe }}\n",
}


def enqueue_first(sample: Sample) -> None:
    enqueue("send_outreach", {"blast": "summer-feast", "to": "everybody", **TEMPLATE})
    enqueue("send_digest", {})
    enqueue_many({"type": "send_invoice", "payload": _invoice(number)} for number in range(1, INVOICES + 1))
    enqueue_many(
        {
            "type": "notify_push",
            "payload": {"person": 1 + 5 * number, "title": "New on your board", "key": f"demo-{number}"},
        }
        for number in range(min(NOTIFIED, sample.people // 5))
    )
    chain(("close_board", {"board": sample.boards}), ("archive_board", {"board": sample.boards}))
    cleaning = ("purge_sessions", "vacuum_logs", "prune_records")
    recurring = ("publish_due_posts", "health_check", "metric_rollup", *cleaning)
    enqueue_many({"type": kind, "payload": {}} for kind in recurring)
    enqueue("import_prospects", {"path": "prospects.csv"})
    enqueue_many({"type": "ai_summarize_board", "payload": {"board": board}} for board in range(2, 2 + SUMMARIZED))
    enqueue("ai_suggest_post", {"board": 2, "about": "the summer feast"})
    enqueue("gpt_ai_cofac_nudging", {})


def enqueue_second(home: Home) -> bool:
    """Jobs that need the imported prospects; returns whether they were enqueued."""
    database = home.open()
    try:
        if database.read(lambda connection: connection.execute(IMPORTED).scalar()) != "done":
            return False
        found = database.read(lambda connection: connection.execute(FIRST_PROSPECTS, {"count": ENRICHED}).scalars())
    finally:
        database.close()
    with batch("enrichment"):
        enqueue_many({"type": "enrich_prospect", "payload": {"prospect": each}} for each in found)
    enqueue("dedup_prospects", {})
    enqueue("rebuild_search_index", {})
    return True


def _invoice(number: int) -> dict[str, object]:
    return {
        "reference": f"order-{number}",
        "customer": {
            "name": f"Allotment No. {number}",
            "email": f"allotment{number}@example.com",
            "address": [f"Path {number}", "04103 Leipzig"],
        },
        "items": [
            {"text": "Membership", "price": "48.00", "vat": "19"},
            {"text": "Seeds, by the packet", "quantity": number, "price": "2.49", "vat": "7"},
        ],
    }
