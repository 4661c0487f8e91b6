"""Plans of models behind one that a run would change. Comparing these with their inputs as they are
now would show nothing, because a run computes them from what the models before them will hold. So
they are run in temporary schemas, and so are the models that change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from dbt.adapters.mvsink.cli.dbt_runner import Dbt, Model, ancestors, terminated_as_interrupted
from dbt.adapters.mvsink.cli.discovery import progress, words
from dbt.adapters.mvsink.cli.model_plan import ModelPlan, planned_against
from dbt.adapters.mvsink.cli.rehearsal import rehearsal
from dbt.adapters.mvsink.cli.target import Target

FAILED = "it was not computed, because a model before it failed"


def behind(models: Sequence[Model], changing: Iterable[str], manifest: Any) -> dict[str, tuple[str, ...]]:
    """By unique id, those of ``models`` (of every materialization) that are downstream of models
    that are ``changing``, with the ids of these. ``manifest`` is dbt's.
    """
    wanted = set(changing)
    upstream = {
        model.unique_id: tuple(sorted(wanted & ancestors(manifest, model.unique_id))) for model in models
    }
    return {unique_id: names for unique_id, names in upstream.items() if names}


@dataclass(frozen=True)
class Behind:
    """``current`` are the plans of the selected models by unique id, each computed from its inputs
    as they are; ``later`` those that `behind` names, and ``tasks`` the continual tasks. With
    ``quick``, nothing is run for them.
    """

    dbt: Dbt
    target: Target
    sample: int
    current: Mapping[str, ModelPlan]
    later: Mapping[str, tuple[str, ...]]
    tasks: Collection[str]
    quick: bool

    def plans(self, models: Sequence[Model], manifest: Any) -> dict[str, ModelPlan]:
        """The plans of the later ones, by unique id. ``models`` are all that are selected,
        ``manifest`` is dbt's.
        """
        again = {name: plan for name in self.later if (plan := self._unknown(name)) is not None}
        computed = [name for name, plan in again.items() if not plan.unknown]
        if not computed:
            return again
        try:
            done = {each.unique_id: each for each in self._rehearsed(self._to_run(models), manifest)}
            why = FAILED
        except click.ClickException as error:
            done, why = {}, f"what it reads cannot be computed before the run: {words(error)}"
        for name in computed:
            plan, result = again[name], done.get(name)
            if result is None:
                again[name] = replace(plan, unknown=why)
            else:
                again[name] = replace(
                    result, relation=plan.relation, next_refresh=plan.next_refresh, behind=plan.behind
                )
        return again

    def _unknown(self, name: str) -> ModelPlan | None:
        """A model's plan without its rows; None if a run would leave it as it is, or fail, whatever
        the models before it hold.
        """
        plan = self.current.get(name)
        if plan is None or plan.paused or plan.error or plan.mode == "none":
            return None
        upstream = [each for each in self.later[name] if each != name]
        why = self._blocked(upstream)
        if not why and name in self.tasks:
            why = f"a task: it would process what {_names(upstream)} would change"
        if not why and self.quick:
            why = f"it reads {_names(upstream)}, which would change"
        behind = tuple(map(_name, upstream))
        return replace(plan, inserted=None, deleted=None, sample=(), behind=behind, unknown=why)

    def _blocked(self, upstream: Sequence[str]) -> str:
        """Why a model behind those cannot be computed before the run; empty if it can be."""
        failing = [name for name in upstream if self.current[name].fails]
        if failing:
            return f"it reads {_names(failing)}, which would fail"
        pending = [name for name in upstream if name in self.tasks]
        return f"it reads {_names(pending)}, a task that may have changes to process" if pending else ""

    def _to_run(self, models: Sequence[Model]) -> list[Model]:
        """The models that can be computed, and what changes them."""
        later = {
            name: upstream
            for name, upstream in self.later.items()
            if name not in self.tasks and not self._blocked(upstream)
        }
        wanted = {*later, *(name for upstream in later.values() for name in upstream)}
        return [model for model in models if model.unique_id in wanted]

    def _rehearsed(self, models: Sequence[Model], manifest: Any) -> Iterator[ModelPlan]:
        """``models``, run in temporary schemas and compared with what the target has."""
        with (
            terminated_as_interrupted(),
            progress("computing what models behind a change would hold, in temporary schemas"),
            rehearsal(self.dbt, self.target, self.target.name, manifest) as place,
        ):
            yield from map(planned_against, place.run(models, place.dbt.parsed(), self.sample))


def _names(unique_ids: Iterable[str]) -> str:
    return ", ".join(map(_name, unique_ids))


def _name(unique_id: str) -> str:
    """The model's name, for people."""
    return unique_id.split(".", 2)[-1]
