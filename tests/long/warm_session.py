"""Five runs at once on one warm session, beside `plan` and `status`, with kills:
`python -m tests.long.warm_session --count 50`.

A case is a round (`tests.support.warm_shop`). A call that goes on begins with a new project.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.long.kept import arguments
from tests.support import quick_java
from tests.support.warm_shop import WarmShop

DEFECTS = ("failed", "differs")


def main() -> int:
    kept, _ = arguments("warm_session", 50)
    quick_java.install()
    left = [number for number in range(kept.count) if f"round {number}" not in kept]
    if left:
        with tempfile.TemporaryDirectory() as place:
            shop = WarmShop(Path(place) / "shop", kept.seed * 1000 + left[0])
            try:
                shop.make()
                for number in left:
                    outcome = shop.round(kills=number % 4)
                    kept.add(f"round {number}", [outcome])
                    print(f"round {number} of {kept.count}: {outcome}", flush=True)
            finally:
                shop.end()
    return kept.conclude(DEFECTS)


if __name__ == "__main__":
    sys.exit(main())
