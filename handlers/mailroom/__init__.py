"""The mail room: inbound mail, deliveries, bounces, warm-up, daily figures, webhooks."""

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs
