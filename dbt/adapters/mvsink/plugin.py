"""What dbt loads: the adapter with its profile and macros, and what it changes in dbt's process."""

from dbt.adapters.base.plugin import AdapterPlugin

from dbt.adapters.mvsink.adapter import recorded_author
from dbt.adapters.mvsink.adapter.first_model import show_first_model
from dbt.adapters.mvsink.connection.job_progress import install
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.impl import MvsinkAdapter
from dbt.adapters.mvsink.materialization.contracts import constraints_are_enforced
from dbt.include import mvsink

install()
recorded_author.install()
constraints_are_enforced()
show_first_model()

Plugin = AdapterPlugin(
    adapter=MvsinkAdapter,  # type: ignore[arg-type]  # as in every adapter: dbt's protocol is not met by its own base
    credentials=MvsinkCredentials,
    include_path=mvsink.PACKAGE_PATH,
    dependencies=["spark"],
)
