"""What `dbt init` says at its end: a first maintained model, over dbt's own starter project."""

from __future__ import annotations

import sys
from typing import Any

from dbt_common.events.event_manager_client import add_callback_to_manager

from dbt.adapters.mvsink.connections import command_of_dbt

WRITTEN = ("ProfileWrittenWithTargetTemplateYAML", "ProfileWrittenWithProjectTemplateYAML")  # dbt's events
PATH = "models/example/my_first_maintained_model.sql"
MODEL = "{{ config(materialized='self_correcting_mv') }} select id from {{ ref('my_first_dbt_model') }}"
MESSAGE = f"""
For a first maintained model, write this line to {PATH}:

  {MODEL}

and run `dbt run` twice: the second run finds that nothing changed. Then look at `mvsink status`.
"""


def show_first_model() -> None:
    """In `dbt init`, which loads the adapter that was chosen: show a first model once the profile
    is written.
    """
    if command_of_dbt() == "init":
        add_callback_to_manager(notice)


def notice(message: Any) -> None:
    """Called with each event of dbt's."""
    if message.info.name in WRITTEN:
        sys.stdout.write(MESSAGE)
