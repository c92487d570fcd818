"""`mayfly campaigns`: list, show, launch, pause, resume, cancel and preview campaigns."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click
from sqlalchemy import Connection, func, select

from handlers.campaigns import campaign as actions
from handlers.campaigns.campaign import Campaign, find_campaign, load_steps
from handlers.campaigns.closing import figures_of
from handlers.campaigns.preview import PreviewLine
from handlers.campaigns.preview import preview as preview_lines
from handlers.campaigns.tables import campaigns as campaigns_table
from handlers.campaigns.tables import executions, sender_accounts
from handlers.payloads import DEFAULT_TENANT
from handlers.scope import Scope
from mayfly import database

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
name_argument = click.argument("name")
tenant_option = click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Owner of the campaign.")
PREVIEW_ROWS = 20


@click.group()
def campaigns() -> None:
    """Campaigns: list, launch, pause, resume, preview."""


@campaigns.command("list")
@json_option
def list_campaigns(as_json: bool) -> None:
    """List campaigns with their status and messages."""
    rows = database().read(_overview)
    lines = [f"{_full_name(row):<30} {row['status']:<10} {_figures_text(row['figures'])}".rstrip() for row in rows]
    _print(rows, as_json, "\n".join(lines) or "There are no campaigns.")


@campaigns.command()
@name_argument
@tenant_option
@json_option
def show(name: str, tenant: str, as_json: bool) -> None:
    """Show the steps, figures and senders of a campaign."""
    facts = database().read(lambda connection: _facts(connection, find_campaign(connection, tenant, name)))
    _print(facts, as_json, _facts_text(facts))


@campaigns.command()
@name_argument
@tenant_option
def launch(name: str, tenant: str) -> None:
    """Launch a draft; cancel it within the delay if needed."""
    launch_at = actions.launch(database(), name, tenant)
    click.echo(f"Campaign {name} starts at {launch_at:%Y-%m-%d %H:%M:%S} UTC.")


@campaigns.command()
@name_argument
@tenant_option
def pause(name: str, tenant: str) -> None:
    """Pause: cancel messages that are not handed over."""
    _act(actions.pause, name, tenant, "paused: pending messages are cancelled within one cycle")


@campaigns.command()
@name_argument
@tenant_option
def resume(name: str, tenant: str) -> None:
    """Resume: plan unsent messages again from now on."""
    _act(actions.resume, name, tenant, "resumed: unsent messages are planned again")


@campaigns.command()
@name_argument
@tenant_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def cancel(name: str, tenant: str, yes: bool) -> None:
    """Cancel for good: nothing more is sent."""
    if not yes:
        click.confirm(f"Cancel the campaign {name}? It cannot be resumed.", abort=True)
    _act(actions.cancel, name, tenant, "cancelled")


@campaigns.command()
@name_argument
@tenant_option
@click.option("--limit", type=click.IntRange(1), help="Maximum number of rows  [default: 20, all with --json]")
@json_option
def preview(name: str, tenant: str, limit: int | None, as_json: bool) -> None:
    """Show who would get what and when; writes nothing."""
    lines = preview_lines(database(), name, tenant)
    shown = lines[: limit or (len(lines) if as_json else PREVIEW_ROWS)]
    rest = [f"and {len(lines) - len(shown)} more"] if len(lines) > len(shown) else []
    text = [*map(_preview_text, shown), *rest, _summary(lines)]
    _print([_preview_facts(each) for each in shown], as_json, "\n".join(text))


def _act(action: Callable[[Scope, str, str], None], name: str, tenant: str, text: str) -> None:
    action(database(), name, tenant)
    click.echo(f"Campaign {name} {text}.")


def _print(facts: object, as_json: bool, text: str) -> None:
    click.echo(json.dumps(facts, indent=2) if as_json else text)


# --- facts and texts --------------------------------------------------------------------------------------


def _overview(connection: Connection) -> list[dict[str, Any]]:
    c = campaigns_table.c
    rows = connection.execute(select(c.id, c.tenant_id, c.name, c.status).order_by(c.id)).all()
    return [
        {"tenant_id": row.tenant_id, "name": row.name, "status": row.status,
         "figures": figures_of(connection, row.id)}
        for row in rows
    ]  # fmt: skip


def _facts(connection: Connection, campaign: Campaign) -> dict[str, Any]:
    e = executions.c
    query = select(e.step_id, e.status, func.count()).where(e.campaign_id == campaign.id)
    by_step = {(row[0], row[1]): row[2] for row in connection.execute(query.group_by(e.step_id, e.status))}
    found = [
        {
            "step": number, "channel": step.channel, "template": step.template_key, "days": step.days,
            "scheduled_at": _time(step.scheduled_at), "planned_at": _time(step.planned_at),
            "messages": {status: n for (step_id, status), n in sorted(by_step.items()) if step_id == step.id},
        }
        for number, step in enumerate(load_steps(connection, campaign.id), 1)
    ]  # fmt: skip
    return {
        "name": campaign.name, "status": campaign.status, "launch_at": _time(campaign.launch_at),
        "started_at": _time(campaign.started_at), "figures": figures_of(connection, campaign.id), "steps": found,
        "senders": _senders(connection, campaign.tenant_id),
    }  # fmt: skip


def _senders(connection: Connection, tenant_id: str) -> list[dict[str, Any]]:
    a = sender_accounts.c
    rows = connection.execute(select(sender_accounts).where(a.tenant_id == tenant_id).order_by(a.id)).all()
    return [
        {
            "name": row.name, "provider": row.provider, "limit": row.current_limit, "health": row.health,
            "cooldown_until": _time(row.cooldown_until), "cooldown_reason": row.cooldown_reason,
        }
        for row in rows
    ]  # fmt: skip


def _facts_text(facts: dict[str, Any]) -> str:
    begins = "started_at" if facts["started_at"] else "launch_at"
    times = [f"{begins} {_shown(facts[begins])}"] if facts[begins] else []
    lines = [f"{facts['name']}  {facts['status']}  {', '.join(times)}".rstrip(), _figures_text(facts["figures"])]
    for step in facts["steps"]:
        begin = f"step {step['step']}  {step['channel']:<9}  day {step['days']}  {step['template']}"
        due = f"due {_shown(step['scheduled_at'])}" if step["scheduled_at"] else ""
        lines.append(f"{begin}  {_figures_text(step['messages']) or due}".rstrip())
    for sender in facts["senders"]:
        cooldown = f"  cooldown until {_shown(sender['cooldown_until'])}: {sender['cooldown_reason']}"
        begin = f"sender {sender['name']}  limit {sender['limit']}  health {sender['health']}"
        lines.append(f"{begin}{cooldown if sender['cooldown_until'] else ''}")
    return "\n".join(lines)


def _figures_text(figures: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in figures.items())


def _preview_text(line: PreviewLine) -> str:
    who = f"{line.contact_id} {line.name}"
    if line.at is None:
        return f"{who}  {f'step {line.step} {line.channel}  ' if line.step else ''}nothing: {line.reason}"
    return f"{who}  step {line.step} {line.channel}  {line.template}  {line.at:%Y-%m-%d %H:%M} UTC ({line.zone})"


def _preview_facts(line: PreviewLine) -> dict[str, Any]:
    return {**line._asdict(), "at": _time(line.at)}


def _summary(lines: Sequence[PreviewLine]) -> str:
    sent = sum(each.at is not None for each in lines)
    last = max((each.at for each in lines if each.at is not None), default=None)
    until = f", the last one at {last:%Y-%m-%d %H:%M} UTC" if last else ""
    return f"{sent} messages to {len({each.contact_id for each in lines if each.at})} contacts{until}."


def _full_name(row: dict[str, Any]) -> str:
    return str(row["name"]) if row["tenant_id"] == DEFAULT_TENANT else f"{row['name']} ({row['tenant_id']})"


def _shown(time: str | None) -> str:
    return "" if time is None else f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M} UTC"


def _time(at: Any) -> str | None:
    return None if at is None else at.isoformat()
