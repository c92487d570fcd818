"""The tables of the mail room. Each row belongs to a tenant; an application with one tenant uses `default`.

Stored mail: blobs and chunks (bytes by hash), contents, attachments, messages. Sent mail: deliveries, bounces, events
of providers. Around them: accounts, warm-up, daily figures, webhooks of tenants.
"""

from sqlalchemy import Column, Double, Integer, LargeBinary, SmallInteger, String, Table
from sqlalchemy.dialects.mysql import MEDIUMBLOB

from handlers.schema import MYSQL, Id, Json, LongText, UtcTimestamp, metadata, tenant_column

MAX_ID_LENGTH = 255  # of the Message-IDs that are compared; longer ones are shortened with a hash
MAX_REASON_LENGTH = 500

INBOUND, OUTBOUND = "inbound", "outbound"
# Types of messages.
PLAIN, REPLY, AUTO_REPLY, BOUNCE, COMPLAINT, WARMUP = "plain", "reply", "auto_reply", "bounce", "complaint", "warmup"
RECEIVED, PROCESSED = "received", "processed"  # statuses of messages
# Statuses of deliveries.
OPEN, SENT, DELIVERED, BOUNCED, COMPLAINED, FAILED = "open", "sent", "delivered", "bounced", "complained", "failed"
HARD, SOFT = "hard", "soft"  # kinds of bounces

Bytes = LargeBinary().with_variant(MEDIUMBLOB(), *MYSQL)

# --- stored mail ------------------------------------------------------------------------------------------

# Bytes by hash: raw messages and attachments, each once per tenant.
blobs = Table(
    "app_mail_blobs",
    metadata,
    tenant_column(primary_key=True),
    Column("blob_hash", String(64), primary_key=True),  # SHA-256
    Column("place", String(16), nullable=False),  # database or directory
    Column("size_bytes", Id, nullable=False),
    Column("stored_at", UtcTimestamp, nullable=False),  # for the last time
)

# Of blobs in the database: parts that fit into one packet of the database.
chunks = Table(
    "app_mail_chunks",
    metadata,
    tenant_column(primary_key=True),
    Column("blob_hash", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", Bytes, nullable=False),
)

contents = Table(
    "app_mail_contents",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("storage_key", String(190), nullable=False),  # email_<message id>_<milliseconds>; unique
    Column("raw_hash", String(64)),  # of its blob; NULL if the payload had parsed fields
    Column("text_body", LongText),
    Column("html_body", LongText),
    Column("generated", String(8)),  # text or html: the body that was made from the other one
    Column("headers", Json, nullable=False),  # a list of pairs
    Column("defects", Json, nullable=False),  # a list of names; not empty: the message is malformed or was cut
    Column("size_bytes", Id, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("expires_at", UtcTimestamp, nullable=False),
)

attachments = Table(
    "app_mail_attachments",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("content_id", Id, nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", String(255), nullable=False),
    Column("content_type", String(190), nullable=False),
    Column("size_bytes", Id, nullable=False),
    Column("blob_hash", String(64)),  # NULL: it was refused
    Column("refusal", String(190)),  # too large, or a type that is not allowed
)

messages = Table(
    "app_mail_messages",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("message_key", String(64), nullable=False),  # hash of account, Message-ID and content; unique per tenant
    Column("email_account_id", Id),
    Column("content_id", Id, nullable=False),
    Column("direction", String(16), nullable=False),
    Column("type", String(16), nullable=False),
    Column("message_id", String(MAX_ID_LENGTH), nullable=False),
    Column("in_reply_to", String(MAX_ID_LENGTH)),
    Column("thread_key", String(MAX_ID_LENGTH), nullable=False),  # the Message-ID of the first message of the thread
    Column("from_address", String(320), nullable=False),
    Column("to_addresses", Json, nullable=False),
    Column("subject", String(500), nullable=False),
    Column("delivery_id", Id),  # that it replies to or reports about
    Column("campaign_id", Id),
    Column("contact_id", Id),
    Column("status", String(16), nullable=False),  # received, processed
    Column("received_at", UtcTimestamp, nullable=False),
    Column("processed_at", UtcTimestamp),
)

# --- sent mail --------------------------------------------------------------------------------------------

# Every email that was sent, or that a server refused. A status only moves on: open, sent, delivered, bounced, …
deliveries = Table(
    "app_mail_deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("effect_key", String(190), nullable=False),  # of app_idempotency; unique
    Column("job_id", Id, nullable=False),  # that sent it
    Column("campaign_id", Id),
    Column("contact_id", Id),
    Column("step_id", Id),
    Column("recipient", String(190), nullable=False),  # canonical
    Column("sender", String(190), nullable=False),  # canonical
    Column("provider", String(190), nullable=False),  # the account
    Column("message_id", String(MAX_ID_LENGTH), nullable=False),
    Column("token", String(64), nullable=False),  # in the addresses that bounces and replies go to
    Column("provider_message_id", String(190)),
    Column("status", String(16), nullable=False),
    Column("response", String(MAX_REASON_LENGTH)),  # of the provider
    Column("created_at", UtcTimestamp, nullable=False),
    Column("sent_at", UtcTimestamp),
    Column("delivered_at", UtcTimestamp),
    Column("bounced_at", UtcTimestamp),
    Column("bounce_type", String(8)),  # hard or soft
    Column("bounce_reason", String(MAX_REASON_LENGTH)),
    Column("replied_at", UtcTimestamp),
    Column("complained_at", UtcTimestamp),
    Column("opened_at", UtcTimestamp),
    Column("clicked_at", UtcTimestamp),
    Column("changed_at", UtcTimestamp, nullable=False),
    # Whether the figures of its day include its last change: every UPDATE resets it.
    Column("counted", SmallInteger, nullable=False, default=0, onupdate=0),
)

# One row per report and recipient. Without a delivery it is an orphan.
bounces = Table(
    "app_mail_bounces",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("bounce_key", String(64), nullable=False),  # hash of report and recipient; unique per tenant
    Column("message_id", Id),  # of app_mail_messages: the report; NULL for an event of a provider
    Column("delivery_id", Id),
    Column("original_id", String(MAX_ID_LENGTH)),  # the Message-ID that the report names
    Column("address", String(190)),  # canonical
    Column("kind", String(8), nullable=False),
    Column("code", String(16)),  # RFC 3463, such as 5.1.1
    Column("reason", String(MAX_REASON_LENGTH)),
    Column("bounced_at", UtcTimestamp, nullable=False),
)

# Events of providers, each once.
provider_events = Table(
    "app_mail_events",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("event_key", String(64), nullable=False),  # hash of provider and the event's own id; unique per tenant
    Column("provider", String(16), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("status", String(16), nullable=False),  # received, applied, orphan
    Column("delivery_id", Id),  # NULL: of no email that was sent from here
    Column("details", Json, nullable=False),  # message_id, recipient, reason, code
    Column("occurred_at", UtcTimestamp, nullable=False),
    Column("received_at", UtcTimestamp, nullable=False),
)

# --- accounts and warm-up ---------------------------------------------------------------------------------

accounts = Table(
    "app_mail_accounts",
    metadata,
    Column("id", Id, primary_key=True),  # email_account_id
    tenant_column(),
    Column("address", String(190), nullable=False),  # in lower case; unique
    Column("smtp_credential", String(64)),  # the name of a setting with a URL: MAILBOX_…
    Column("imap_credential", String(64)),
    Column("is_active", SmallInteger, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
)

# How far each folder has been read.
mailboxes = Table(
    "app_mail_mailboxes",
    metadata,
    tenant_column(),
    Column("email_account_id", Id, primary_key=True, autoincrement=False),
    Column("folder", String(190), primary_key=True),
    Column("uid_validity", Id, nullable=False),
    Column("last_uid", Id, nullable=False),
    Column("polled_at", UtcTimestamp, nullable=False),
)

warmups = Table(
    "app_mail_warmups",
    metadata,
    Column("email_account_id", Id, primary_key=True, autoincrement=False),
    tenant_column(),
    Column("is_active", SmallInteger, nullable=False),
    Column("start_per_day", Integer, nullable=False),
    Column("increase_per_day", Integer, nullable=False),
    Column("max_per_day", Integer, nullable=False),
    Column("reply_percent", Integer, nullable=False),
    Column("flag_percent", Integer, nullable=False),
    Column("zone", String(64), nullable=False),
    Column("started_at", UtcTimestamp, nullable=False),
    Column("planned_on", String(10)),  # the last date of that zone whose steps are enqueued
)

# The steps of an account, per type in the order of sequence_step.
warmup_steps = Table(
    "app_mail_warmup_steps",
    metadata,
    Column("email_account_id", Id, primary_key=True, autoincrement=False),
    Column("warmup_type", String(16), primary_key=True),  # outbound, inbound or engagement
    Column("sequence_step", Integer, primary_key=True, autoincrement=False),
    tenant_column(),
    Column("result", Json),  # counts
    Column("created_at", UtcTimestamp, nullable=False),
    Column("done_at", UtcTimestamp),
)

# The emails between accounts in warm-up, and their answers.
warmup_mails = Table(
    "app_mail_warmup_mails",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("mail_key", String(190), nullable=False),  # of the step, or of the email that it answers; unique
    Column("from_account_id", Id, nullable=False),
    Column("to_account_id", Id, nullable=False),
    Column("message_id", String(MAX_ID_LENGTH), nullable=False),
    Column("answers_id", Id),  # the email that it answers
    Column("subject", String(MAX_REASON_LENGTH), nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("sent_at", UtcTimestamp),
    Column("found_at", UtcTimestamp),  # in the mailbox of its recipient
    Column("was_spam", SmallInteger),  # it was in the spam folder
    Column("engaged_at", UtcTimestamp),  # answered, flagged or left alone
)

# --- daily figures ----------------------------------------------------------------------------------------

daily_figures = Table(
    "app_mail_daily",
    metadata,
    tenant_column(primary_key=True),
    Column("day", String(10), primary_key=True),  # UTC
    Column("campaign_id", Id, primary_key=True, autoincrement=False),  # 0: of no campaign
    Column("sender", String(190), primary_key=True),
    *(
        Column(name, Integer, nullable=False)
        for name in ("sent", "delivered", "bounced", "soft_bounced", "replied", "complained")
    ),
    *(Column(f"{name}_rate", Double, nullable=False) for name in ("delivery", "bounce", "reply", "complaint")),
    Column("computed_at", UtcTimestamp, nullable=False),
)

# The days that have figures, or will have.
days = Table(
    "app_mail_days",
    metadata,
    Column("day", String(10), primary_key=True),  # UTC
    tenant_column(primary_key=True),
    Column("is_stale", SmallInteger, nullable=False),  # its figures must be computed again
)

# --- webhooks of tenants ----------------------------------------------------------------------------------

webhook_endpoints = Table(
    "app_webhook_endpoints",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("url", String(500), nullable=False),
    Column("credential", String(64), nullable=False),  # the name of a setting with the secret: WEBHOOK_…
    Column("events", Json),  # a list of types; NULL: all
    Column("failing_since", UtcTimestamp),  # the first failure after the last success
    Column("failures", Integer, nullable=False, default=0),  # since then
    Column("retry_at", UtcTimestamp),  # until then nothing is sent
    Column("disabled_at", UtcTimestamp),
    Column("disabled_reason", String(MAX_REASON_LENGTH)),
    Column("contact", String(190)),  # the address that gets the notice
    Column("created_at", UtcTimestamp, nullable=False),
)

# One row per event and endpoint.
webhook_deliveries = Table(
    "app_webhook_deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("endpoint_id", Id, nullable=False),
    Column("event_key", String(190), nullable=False),  # unique with the endpoint; the webhook-id header
    Column("event_type", String(64), nullable=False),
    Column("content", Json, nullable=False),
    Column("status", String(16), nullable=False),  # open, delivered, failed
    Column("response", String(MAX_REASON_LENGTH)),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("delivered_at", UtcTimestamp),
)
