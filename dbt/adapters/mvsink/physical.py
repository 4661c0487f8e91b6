"""What every package must spell in the same way: a shard's physical columns, and the bounds of its
times.

This is a neutral module, because the engine's SQL helpers and `durations`, which may import no
package of ours, need these names just as the shard does.
"""

from __future__ import annotations

# The columns of a shard's files after the model's own: an update's time (ms) and multiplicity, an
# error's message or NULL, and the hash of the row or NULL. Names with this prefix are reserved.
PREFIX = "_mv_"
TIME, DIFF, ERROR, HASH = "_mv_time", "_mv_diff", "_mv_error", "_mv_hash"
META = (TIME, DIFF, ERROR, HASH)

SUMS = "_sums"  # the directory below a model's shard in which the sums of its query are

LARGEST_TIME = 2**63 - 2  # ms
EMPTY_FRONTIER = LARGEST_TIME + 1  # the stored form of the empty frontier; not a time
