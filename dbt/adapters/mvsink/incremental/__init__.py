"""Incremental maintenance: derives, from a query's text, the query of its change. Pure: SQL text,
schemas and times in, SQL text out. docs/design/one-change.md follows one query,
docs/design/incremental.md has the rules.

    analysed = analyse(query, columns_of)                 # Analysed | NotIncremental(reason)
    plan = delta(analysed, {"db.orders": Sides(new=..., old=..., change=...)}, clock=(T0, T))

`analyse` reads a model's compiled SQL. ``columns_of`` returns the columns of a relation and their
types, as the engine's ``columns`` does, by the name in the text; None if they are not known. The
result depends on no time and no contents, so it can be stored under the definition's digest.
`Analysed.relations` names the relations that the query reads, and the columns that it may use.

`delta` takes the relations that changed, and those to be read as of a time or restricted; all
others are read as the text names them. `Sides` are SELECTs with all columns of the relation, in its
order and with its types: the ``new`` and the ``old`` contents, and the ``change``, new less old,
with `_mv_diff` (BIGINT) as its last column and not necessarily consolidated. Columns that the query
does not use may hold any value. Without a ``change`` the relation did not change. ``clock`` has the
times (ms) of `mv_now()` at the last refresh and now; without it, `mv_now()` stays as it is.
`clock_probe` is a query that shows whether the two times make a difference.

- `Plan.query` returns the model's columns and `_mv_diff`: what to add to the old rows to get the
  new ones, not consolidated. None if evaluating the old inputs again may give values that differ
  from the shard's (`Analysed.unrepeatable`): then `Plan.scoped` is the only way.
- `Plan.scoped`, if there is one, gives new rows for a scope; the shard's rows take the place of the
  old inputs.
- `Plan.adding`, if there is one, gives sums over the change, to be added to the shard's rows; no
  other row of an input is read. `sums_of` splits a query that does not show just its sums into one
  that adds up and one over the rows of that one.
- `basis` decides, before anything is read, what a correction replaces and what it is computed from.
  `Basis.needed` says which rows of ``new`` and ``old`` can matter, by the keys of the changes. A
  caller that uses `Basis.plan` and `Basis.known_scope` may omit the others, also in relations that
  did not change. `Basis.known_scope` is a wider scope whose keys are values in the changes, so that
  no query has to find them. For `Plan.adding` more rows can be omitted; `adding_of` says whether
  there is one.
- `filters` returns which rows of each relation can matter at all, judging by the query's own
  comparisons with constants. The caller may omit the others from any of ``new``, ``old`` and
  ``change``.
- `NotIncremental` has the reason why the query must be evaluated in full, as it is in case of
  doubt.

`user_sql` reads the text. Modules:

- `refuse`: refusals of what is not a function of one row of the inputs, is not reproducible (as
  `user_sql/functions` judges), or has an uncertain number of columns
- `name_resolution`: the columns of leaves, which names mean them, and which are used
- `unnest`: subqueries in WHERE as joins. `top_rows`: ORDER BY with LIMIT as a window
- `keys`: what kind a block is, and its keys
- `lineage`: of which column of a relation an output is a copy, its type, and whether its sums are
  exact
- `repeatable`: which values differ when they are evaluated again
- `terms`: the rules for sources. `blocks`: those for blocks and set operators. `compose`: cutting
  text out and putting it together. `change_plan`: `analyse` and `delta`
- `adding`: sums over changes. `sums`: splitting groups into sums and the columns computed from them
- `replaced`: which rows of a model are replaced. `restrict`: which input rows can matter. `basis`:
  both, and keys that the changes hold. `filtering`: which rows the query's conditions keep
- `explicit`: what the text is taken to mean, as a second text that Spark compares with it
- `describe`: the rules of a query, for people
"""

from dbt.adapters.mvsink.incremental.adding import WRONG, Adding, exact_sums
from dbt.adapters.mvsink.incremental.basis import Basis, KnownScope, basis
from dbt.adapters.mvsink.incremental.blocks import Scoped
from dbt.adapters.mvsink.incremental.change_plan import (
    RULES,
    Analysed,
    Plan,
    adding_of,
    analyse,
    clock_probe,
    delta,
)
from dbt.adapters.mvsink.incremental.compose import Sides
from dbt.adapters.mvsink.incremental.describe import Rule, remarks, rules
from dbt.adapters.mvsink.incremental.explicit import Claim, claims, pieces
from dbt.adapters.mvsink.incremental.filtering import filters
from dbt.adapters.mvsink.incremental.refuse import NotIncremental
from dbt.adapters.mvsink.incremental.restrict import Keys
from dbt.adapters.mvsink.incremental.sums import Sums, sums_of
