"""Alerts, heartbeat, metrics, tracing and hooks."""
