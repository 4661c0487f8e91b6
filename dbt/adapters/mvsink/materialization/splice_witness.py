"""Whether a query keeps its meaning when a run replaces its relations by queries.

A run puts a query in the place of each relation that it reads at a fixed time, under a name by
which columns are qualified (`user_sql.splice`). Once per definition, before anything is stored, the
same replacement is made with the relations themselves:

    select o.id, shop.customers.name from shop.orders o join shop.customers using (customer)
    select o.id, `customers`.name
    from (shop.orders) o join (shop.customers) as `customers` using (customer)

Spark must analyze both to the same plan, or parse both alike, where no column is qualified by a
schema (above one is). Nothing is run. The same check is made for the statements
of a task, whose relations are replaced for each time of its input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dbt.adapters.mvsink.continual_task.bind import replaced_by_themselves
from dbt.adapters.mvsink.continual_task.statements import Program
from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.engine.plan_text import parsed_alike
from dbt.adapters.mvsink.exceptions import ReadOtherwise
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.witness import asked_of
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.user_sql.checks import breaks_lines
from dbt.adapters.mvsink.user_sql.marks import query_at
from dbt.adapters.mvsink.user_sql.splice import replace_relations
from dbt.adapters.mvsink.user_sql.words import UnreadableText, parts

RULES = "1"  # another number: what was compared before proves nothing
BOUND = "bindings_shared"  # a property of a task's output: the number of the texts


def check_replacement(opened: Opened, references: References) -> None:
    """Raises `ReadOtherwise` if the model's query would read something else with its ``references``
    replaced. Does not ask if the shard holds contents of this query, or if none are due.
    """
    context, replaced = opened.context, {name: name for name in references.names}
    if not replaced or opened.timing.time is None or not opened.new_query:
        return
    query = query_at(context.query, context.invocation.time)
    spliced = replace_relations(query, replaced)
    if _parsed_alike(context.engine, query, spliced, references.names):
        return
    if problem := _problem(context.engine, query, spliced):
        raise ReadOtherwise(context.model, list(replaced), problem)


def check_bindings(
    engine: Engine, program: Program, references: Collection[str], state: ShardState
) -> Mapping[str, str]:
    """Raises `ReadOtherwise` if a statement of the task would read something else with its input,
    ``references`` and output replaced. Gives the properties to keep, so that later runs need not
    ask; none as long as there is no output, which the statements may read.
    """
    claims = list(replaced_by_themselves(program, references))
    number = str(asked_of(engine, RULES, *(text for claim in claims for text in claim)))
    if state.properties.get(BOUND) != number:
        for written, replaced in claims:
            at = query_at(written, 1), query_at(replaced, 1)
            if problem := _problem(engine, *at):
                names = dict.fromkeys((program.input.name, *references, program.this))
                raise ReadOtherwise(program.model, list(names), problem)
    return {BOUND: number} if state.readable else {}


def _parsed_alike(engine: Engine, query: str, replaced: str, names: Iterable[str]) -> bool:
    """Whether Spark parses both alike, and no column is qualified by more than a relation's last
    name: then the names mean the same. That takes milliseconds; to analyze a query takes a job for
    each file format that it reads.
    """
    qualifiers = {part for name in names for part in parts(name)[:-1]}
    try:
        plans = [engine.parsed(text) for text in (query, replaced)]
        if None in plans or breaks_lines(query) or any("`" in each for each in qualifiers):
            return False
    except (EngineError, UnreadableText):
        return False
    one, other = map(str, plans)
    if not parsed_alike(one, other):
        return False
    others = [line for line in one.lower().splitlines() if "'unresolvedrelation [" not in line]
    return not any(f"{each}{dot}" in line for line in others for each in qualifiers for dot in (".", "`."))


def _problem(engine: Engine, query: str, replaced: str) -> str:
    """How Spark's readings of the two differ; empty if they do not, or if nothing can be
    compared.
    """
    try:
        if engine.same_plan(query, replaced, {}):
            return ""
        problem = "Spark reads another query then"
    except EngineError as error:
        problem = str(error).splitlines()[0]
    try:  # a plan with seeds of its own is never the same, and a query that fails says so itself
        return problem if engine.same_plan(query, query, {}) else ""
    except EngineError:
        return ""
