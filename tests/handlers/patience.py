"""How hypothesis looks for payloads that break something: a machine that is busy makes none of them wrong."""

from hypothesis import HealthCheck, settings

patient = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
