"""Makes `dbt init` and `dbt --version` list the adapter after an editable install too.

dbt looks for `__version__.py` files below `dbt/adapters` in site-packages only. An editable install
would leave nothing there: it names this checkout in a .pth file. So the version file is installed
there as well. The directory holds no `__init__.py`, and therefore Python goes on to import the
package from the checkout.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VERSION_FILE = "dbt/adapters/mvsink/__version__.py"


class EditableInstall(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the version file to editable wheels; others have it anyway."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            build_data["force_include_editable"] = {VERSION_FILE: VERSION_FILE}
