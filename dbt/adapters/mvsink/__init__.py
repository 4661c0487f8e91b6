"""dbt-mvsink: a dbt adapter for Spark with tables that are always right.

Layers, top to bottom: dbt (`adapter`, `materialization`, `references`), dataflow (`sink`, `inputs`,
`continual_task` on `shard_sql`, `user_sql` and `engine`), and `shard`. Each imports only what is
below it; tests/unit/test_layers.py checks that. The map is in docs/design/overview.md.
"""

from dbt.adapters.base.plugin import AdapterPlugin

from dbt.adapters.mvsink.adapter import recorded_author
from dbt.adapters.mvsink.connection.factory import CONNECTIONS
from dbt.adapters.mvsink.connection.job_progress import install
from dbt.adapters.mvsink.credentials import MvsinkCredentials, register_methods
from dbt.adapters.mvsink.impl import MvsinkAdapter
from dbt.adapters.mvsink.materialization.contracts import constraints_are_enforced
from dbt.include import mvsink

install()
recorded_author.install()
register_methods(CONNECTIONS)
constraints_are_enforced()

Plugin = AdapterPlugin(
    adapter=MvsinkAdapter,  # type: ignore[arg-type]  # as in every adapter: dbt's protocol is not met by its own base
    credentials=MvsinkCredentials,
    include_path=mvsink.PACKAGE_PATH,
    dependencies=["spark"],
)
