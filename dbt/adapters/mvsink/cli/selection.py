"""MODELS and dbt's selectors, alike for every command that takes several models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from dbt.adapters.mvsink.cli import dbt_options
from dbt.adapters.mvsink.cli.dbt_runner import Dbt, flat
from dbt.adapters.mvsink.cli.discovery import SelectedModel, progress
from dbt.adapters.mvsink.cli.errors import NoSuchModel, WrongUsage
from dbt.adapters.mvsink.cli.target import Target, takes_dbt

Command = Callable[..., Any]


def takes_selection(command: Command) -> Command:
    """Give a command the arguments MODELS, and `--select`, `--exclude` and `--state`. It gets
    ``select`` (words, MODELS among them), ``exclude`` (words), and a ``dbt`` with the state.
    """

    @wraps(command)
    def with_selection(
        target: Target, dbt: Dbt, *, models: Any, select: Any, exclude: Any, state: Any, **others: Any
    ) -> Any:
        dbt = replace(dbt, state=str(state) if state else None)
        return command(target, dbt, select=[*models, *flat(select)], exclude=flat(exclude), **others)

    return _with_options(with_selection)


def takes_models(*, required: bool = False, with_dbt: bool = False) -> Callable[[Command], Command]:
    """The same for a command about models that have run: it gets ``models``, names as in
    `discovery.choose`. dbt reads the project only if there is a selector.
    """

    def decorated(command: Command) -> Command:
        @wraps(command)
        def with_models(
            target: Target, dbt: Dbt, *, models: Any, select: Any, exclude: Any, state: Any, **others: Any
        ) -> Any:
            chosen = tuple(models)
            if select or exclude:
                dbt_of_state = replace(dbt, state=str(state) if state else None)
                with progress("reading the project"):
                    selected = dbt_of_state.models(flat(select), flat(exclude), dbt_of_state.parsed())
                chosen += tuple(SelectedModel(model.unique_id) for model in selected if model.maintained)
                if not chosen:
                    raise NoSuchModel("no maintained models are selected")
            elif state:
                raise WrongUsage("--state is what --select and --exclude compare with: give one of them")
            if required and not chosen:
                raise WrongUsage("which models? Give MODELS, or --select")
            others["models"] = chosen
            return command(target, dbt, **others) if with_dbt else command(target, **others)

        return takes_dbt(_with_options(with_models))

    return decorated


def _with_options(command: Command) -> Command:
    wrapped: Any = command
    for option in (dbt_options.state, dbt_options.exclude, dbt_options.select):
        wrapped = option(wrapped)
    return click.argument("models", nargs=-1, metavar="[MODELS]...")(wrapped)  # type: ignore[no-any-return]
