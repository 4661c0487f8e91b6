"""`mvsink explain`: whether the next run would evaluate a query, and why. Nothing is written.

dbt runs the selected models in read-only mode up to the point where each would evaluate its query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from dbt.adapters.mvsink.cli.dbt_runner import VIEW, Dbt, RunResult
from dbt.adapters.mvsink.cli.discovery import progress
from dbt.adapters.mvsink.cli.render import Printer, Values, takes_output
from dbt.adapters.mvsink.cli.selection import takes_selection
from dbt.adapters.mvsink.cli.target import Target, takes_dbt

NOT_EXPLAINED: Values = {  # the values of a model that has no explanation
    "evaluates": "",
    "inputs": [],
    "error": "",
    "full": "",
    "later": None,
    "always": False,
    "fails": False,
    "rests": "",
    "seconds": {},
    "weighed": [],
    "rules": [],
    "remarks": [],
    "paused": "",
}


def explained(ran: RunResult) -> dict[str, Any]:
    """A model's explanation as JSON, from the result of a run that only explains.

    If the run failed, it has only an ``error``. If the model is paused, it has only ``paused``,
    which says who paused it, when and why.
    """
    if not ran.ok:
        values: Values = {"error": ran.message or ran.status}
    elif ran.response.get("paused"):
        values = {"paused": ran.response["paused"]}
    else:
        values = ran.response.get("explanation") or {}
    return {"model": ran.name, **NOT_EXPLAINED, **values}


def explained_lines(values: Values, *, with_rules: bool, with_costs: bool = False) -> Iterator[str]:
    """An explanation for people: one line for the model, one for each input, fact that was weighed,
    rule and remark.
    """
    took = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in values["seconds"].items())
    yield f"{values['model']}: {_verdict(values)}" + (f" (last runs: {took})" if took else "")
    width = max((len(each["name"]) for each in values["inputs"]), default=0)
    for each in values["inputs"]:
        why = each["reason"] or each["moved"]
        yield f"  {each['name']:<{width}}  {each['kind']:<6} {each['state']}" + (f": {why}" if why else "")
    facts = values["weighed"] if with_costs else ()
    width = max((len(each["fact"]) for each in facts), default=0)
    for each in facts:
        yield f"  {each['fact']:<{width}}  {each['numbers']}{'  <- decides' if each['decides'] else ''}"
    for each in values["rules"] if with_rules else ():
        yield f"  {'  ' * each['depth']}{each['part']}: {each['rule']}"
    yield from (f"  note: {remark}" for remark in values["remarks"])


def _verdict(values: Values) -> str:
    evaluates, full, later = values["evaluates"], values["full"], values["later"]
    if values["error"]:
        return str(values["error"])
    if values["paused"]:
        return f"left as it is: {values['paused']}"
    if not evaluates:
        after = "" if later is None else f"; after a change: {_outlook(values, 'it fails')}"
        return f"not evaluated: {values['rests']}{after}"
    if not full:
        return f"incremental: {evaluates}"
    verdict = f"{'fails' if values['fails'] else 'evaluated'}: {evaluates}"
    verdict += "" if full == evaluates else f"; not incremental: {full}"
    verdict += ", and `incremental` is always" if values["fails"] else ""
    return verdict + ("" if later is None else f"; later runs: {_outlook(values, 'they fail')}")


def _outlook(values: Values, failing: str) -> str:
    if values["later"]:
        return f"{f'{failing}, ' if values['always'] else ''}not incremental: {values['later']}"
    unknown = [each for each in values["inputs"] if each["changes"] != "known"]
    names = [f"the value of {each['name']}" if each["kind"] == "clock" else each["name"] for each in unknown]
    return f"incremental, unless {' or '.join(names)} changes" if names else "incremental"


@click.command()
@takes_dbt
@takes_selection
@click.option(
    "--rules", "show_rules", is_flag=True, help="For each part of the query, which rows a change computes."
)
@click.option(
    "--costs",
    "show_costs",
    is_flag=True,
    help="What `incremental: auto` weighs: rows, bytes and seconds, and which of them decides.",
)
@takes_output
def explain(
    target: Target,
    dbt: Dbt,
    select: list[str],
    exclude: list[str],
    show_rules: bool,
    show_costs: bool,
    output: Printer,
) -> None:
    """Whether the next `dbt run` would evaluate each model's query, or compute its contents from
    the changes of its inputs, and why. Nothing is written.

    MODELS are names, as for --select. For each input: unchanged, changed, or why that cannot be
    known.

    Exit code: 0; 1 if a model cannot run; 2 for wrong usage.

    \b
    Examples:
      mvsink explain
      mvsink explain orders --costs
      mvsink explain --select tag:daily --output json
    """
    with progress("checking the inputs"):
        manifest = dbt.parsed()
        chosen = dbt.models(select, exclude, manifest)
        views = [model for model in chosen if model.materialized == VIEW]
        explaining = dbt.with_vars(mvsink_read_only=True, mvsink_explain=True)
        answers = [explained(ran) for ran in explaining.run(views, manifest)] if views else []
    answers.sort(key=lambda each: each["model"])
    output.json({"project": target.project, "target": target.name, "models": answers})
    for each in answers:
        output.text(*explained_lines(each, with_rules=show_rules, with_costs=show_costs))
    if not answers:
        output.text("no self_correcting_mv is selected")
    click.get_current_context().exit(1 if any(each["error"] for each in answers) else 0)
