"""`mvsink explain`: whether the next run would evaluate a query, and why. Nothing is written.

dbt runs the selected models in read-only mode up to the point where each would evaluate its query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import click
from dbt.cli import params

from dbt.adapters.mvsink.cli.dbt_runner import Dbt, RunResult, flat
from dbt.adapters.mvsink.cli.discovery import progress
from dbt.adapters.mvsink.cli.render import Output, takes_output, write_json
from dbt.adapters.mvsink.cli.target import Target, takes_dbt

VIEW = "self_correcting_mv"


@dataclass(frozen=True)
class Explained:
    """One model. ``evaluates``: why something would be computed, empty if nothing would. ``full``:
    why its query would be evaluated in full, empty if its contents follow from its inputs' changes.
    ``later``: the same of runs after this one, None where nothing is to be added; ``always``: the
    model's runs fail instead, ``fails``: the next one would; ``rests``: why nothing would be
    computed; ``seconds``: of earlier runs. ``rules``: for each part of the query
    its ``depth``, what it is and which rows a change computes; ``remarks``: what may differ when
    equal rows are evaluated again. ``paused``: who paused it, when and why, if a run would leave it
    alone.
    """

    model: str
    evaluates: str
    inputs: tuple[Mapping[str, str], ...] = ()
    error: str = ""
    full: str = ""
    later: str | None = None
    always: bool = False
    fails: bool = False
    rests: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    rules: tuple[Mapping[str, Any], ...] = ()
    remarks: tuple[str, ...] = ()
    paused: str = ""

    @classmethod
    def of(cls, ran: RunResult) -> Explained:
        """From the result of a run that only explains."""
        if not ran.ok:
            return cls(ran.name, "", error=ran.message or ran.status)
        if ran.response.get("paused"):
            return cls(ran.name, "", paused=ran.response["paused"])
        values = ran.response.get("explanation") or {}
        return cls(
            ran.name,
            values.get("evaluates", ""),
            tuple(values.get("inputs", ())),
            full=values.get("full", ""),
            later=values.get("later"),
            always=values.get("always", False),
            fails=values.get("fails", False),
            rests=values.get("rests", ""),
            seconds=values.get("seconds", {}),
            rules=tuple(values.get("rules", ())),
            remarks=tuple(values.get("remarks", ())),
        )

    def lines(self, with_rules: bool) -> list[str]:
        """For people: one line for the model, one for each input, rule and remark."""
        if self.error:
            return [f"{self.model}: {self.error}"]
        if self.paused:
            verdict = f"left as it is: {self.paused}"
        elif not self.evaluates:
            verdict = f"not evaluated: {self.rests}"
            verdict += (
                "" if self.later is None else f"; after a change: {self._outlook(self.later, 'it fails')}"
            )
        elif not self.full:
            verdict = f"incremental: {self.evaluates}"
        else:
            verdict = f"{'fails' if self.fails else 'evaluated'}: {self.evaluates}"
            verdict += "" if self.full == self.evaluates else f"; not incremental: {self.full}"
            verdict += ", and `incremental` is always" if self.fails else ""
            verdict += "" if self.later is None else f"; later runs: {self._outlook(self.later, 'they fail')}"
        width = max((len(each["name"]) for each in self.inputs), default=0)
        took = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in self.seconds.items())
        inputs = [
            f"  {each['name']:<{width}}  {each['kind']:<6} {each['state']}"
            + (f": {each['reason'] or each['moved']}" if each["reason"] or each["moved"] else "")
            for each in self.inputs
        ]
        rules = [f"  {'  ' * each['depth']}{each['part']}: {each['rule']}" for each in self.rules]
        return [
            f"{self.model}: {verdict}" + (f" (last runs: {took})" if took else ""),
            *inputs,
            *(rules if with_rules else ()),
            *(f"  note: {remark}" for remark in self.remarks),
        ]

    def _outlook(self, later: str, failing: str) -> str:
        if later:
            return f"{f'{failing}, ' if self.always else ''}not incremental: {later}"
        names = [each["name"] for each in self.inputs if each["changes"] != "known"]
        return f"incremental, unless {' or '.join(names)} changes" if names else "incremental"


@click.command()
@takes_dbt
@click.argument("models", nargs=-1)
@params.select
@params.exclude
@click.option(
    "--rules", "show_rules", is_flag=True, help="For each part of the query, which rows a change computes."
)
@takes_output
@click.pass_context
def explain(
    context: click.Context,
    target: Target,
    dbt: Dbt,
    models: Any,
    select: Any,
    exclude: Any,
    show_rules: bool,
    output: str,
) -> None:
    """Whether the next `dbt run` would evaluate each model's query, or compute its contents from
    the changes of its inputs, and why. Nothing is written.

    MODELS are names, as for --select. For each input: unchanged, changed, or why that cannot be
    known.

    Exit code: 0; 1 if a model cannot run; 2 for wrong usage.
    """
    dbt = replace(dbt, vars={**dbt.vars, "mvsink_read_only": True, "mvsink_explain": True})
    with progress("checking the inputs"):
        manifest = dbt.parsed()
        chosen = dbt.models([*models, *flat(select)], flat(exclude), manifest)
        views = [model for model in chosen if model.materialized == VIEW]
        explained = [Explained.of(ran) for ran in dbt.run(views, manifest)] if views else []
    explained.sort(key=lambda each: each.model)
    if output == Output.JSON.value:
        head = {"project": target.project, "target": target.name}
        write_json({**head, "models": [asdict(each) for each in explained]})
    else:
        text = "\n".join("\n".join(each.lines(show_rules)) for each in explained)
        click.echo(text or "no self_correcting_mv is selected")
    context.exit(1 if any(each.error for each in explained) else 0)
