"""Incremental maintenance: the query of a query's change. Pure: SQL text, schemas and times in, SQL
text out.

    analysed = analyse(query, columns_of)                 # Analysed | NotIncremental(reason)
    plan = delta(analysed, {"db.orders": Sides(new=..., old=..., change=...)}, clock=(T0, T))

`analyse` reads a model's compiled SQL. ``columns_of`` gives a relation's columns and their types,
as the engine's ``columns`` has them, by the name that the text has for it; None for what is not
known. It needs no time and no contents: its outcome can be kept with the definition's digest.
`Analysed.relations` are the names of the relations that the query reads, each with the columns that
it may use.

`delta` takes the relations that changed, and others that are to be read in another way than the
text has it: as of a time, or restricted. `Sides` are texts of SELECTs: ``new`` and ``old`` contents
with all columns of the relation in its order and with its types, ``change`` with `_mv_diff`
(BIGINT) behind them, new less old, which need not be consolidated. Columns that the query does not
use may hold anything, NULL say. Without a ``change`` the relation did not change. Relations that
are not named stay as the text has them. ``clock``: the times (ms) that `mv_now()` was at the
last refresh and is now; `clock_probe` is a query that says whether that makes a difference. Without
it, `mv_now()` stays as the text has it. `Plan.query` gives the model's columns, under their names
and with their types, and `_mv_diff`: what to add to the old rows to have the new ones. It is not
consolidated.

`Plan.scoped`, if there is one, gives the same with the shard's rows instead of the old inputs: new
rows for those in scope. Where `Plan.query` is None it is the only way, because evaluating the old
inputs again may give other values than the shard has; `Analysed.unrepeatable` says so beforehand.

`Plan.adding`, if there is one, gives the same from the sums over the change, to be added to the
shard's rows: no other row of an input is read. `sums_of` splits a query that shows something else
than its sums into one that adds up and one over its rows.

`restrictions` says which rows of ``new`` and ``old`` can matter at all, by the keys of the changes:
the caller may leave out the others, also of relations that did not change.

`NotIncremental` is for the full correction, and says why. In doubt everything is.

- `text` (with `tokens`, `from_tree`): the text as blocks, set operators and FROM trees, with spans
- `algebra`: their classes
- `agree`: sqlglot's second opinion, and the tree of every expression
- `functions`, `refuse`: what is not a function of one row of the inputs, or not reproducible
- `resolve`: the columns of leaves; which names mean them; which are used
- `grouping`, `keys`: groups and windows, what kind a block is, and its keys
- `equalities`: columns that are compared by `=`, and their types
- `repeatable`, `exact`: which values differ when they are evaluated again
- `terms`: the rules for sources. `blocks`: those for blocks and set operators. `compose`: cutting
  and putting together. `plan`: `analyse` and `delta`
- `adding`: sums over changes. `sums`: splitting groups into sums and what is shown of them
- `clock`: whether time makes a difference. `restrict`: which rows can matter
"""

from dbt.adapters.mvsink.incremental.adding import WRONG, Adding, exact_sums
from dbt.adapters.mvsink.incremental.blocks import Scoped
from dbt.adapters.mvsink.incremental.clock import clock_probe
from dbt.adapters.mvsink.incremental.compose import Sides
from dbt.adapters.mvsink.incremental.plan import Analysed, Plan, analyse, delta
from dbt.adapters.mvsink.incremental.refuse import NotIncremental
from dbt.adapters.mvsink.incremental.restrict import Keys, restrictions
from dbt.adapters.mvsink.incremental.sums import Sums, sums_of

__all__ = [
    "WRONG",
    "Adding",
    "Analysed",
    "Keys",
    "NotIncremental",
    "Plan",
    "Scoped",
    "Sides",
    "Sums",
    "analyse",
    "clock_probe",
    "delta",
    "exact_sums",
    "restrictions",
    "sums_of",
]
