"""What a printed plan says that a query reads."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.inputs.reads import UNREADABLE, Reads, read_plan

T, V, W = "spark_catalog.db.t", "spark_catalog.db.v", "spark_catalog.db.w"
NESTED = """WithCTE
:- CTERelationDef 0, false
:  +- SubqueryAlias cte
:     +- SubqueryAlias spark_catalog.db.w
:        +- View (`spark_catalog`.`db`.`w`, [a#26])
:           +- Project [a#27]
:              +- Join Inner
:                 :- SubqueryAlias spark_catalog.db.v
:                 :  +- View (`spark_catalog`.`db`.`v`, [a#27, b#28])
:                 :     +- Relation [a#11,b#12] parquet
:                 +- Relation spark_catalog.db.t[a#13] parquet
+- Union false, false
   :- Project [scalar-subquery#17 [a#26] AS m#18]
   :  :  +- Relation spark_catalog.db.t[a#50,b#51] csv
   :  +- CTERelationRef 0, true, [a#26], false, false
   +- Range (0, 3, step=1)
"""
PLANS = {
    "views within views": (
        NESTED,
        Reads(
            (W,),
            (T,),
            "",
            {W: Reads((V,), (T,), "", {V: Reads(unknown="something other than tables and views")})},
        ),
    ),
    "a table of another catalog": ("RelationV2[a#1, b#2L] c.db.deep.t\n", Reads((), ("c.db.deep.t",))),
    "its version": ("RelationV2[a#1] c.db.t VERSION AS OF '77'\n", Reads((), ("c.db.t",))),
    "its branch": (
        "RelationV2[a#1] c.db.t VERSION AS OF 'dev'\n",
        Reads(unknown="something other than tables and views"),
    ),
    "its state at a time": (
        "RelationV2[a#1] c.db.t TIMESTAMP AS OF 1\n",
        Reads(unknown="something other than tables and views"),
    ),
    "a path": ("Relation [a#1] parquet\n", Reads(unknown="something other than tables and views")),
    "a temporary view": (
        "SubqueryAlias tmp\n+- View (`tmp`, [a#1])\n   +- Relation spark_catalog.db.t[a#1] parquet\n",
        Reads((), (T,), "something other than tables and views"),
    ),
    "a variable": ("Filter (variablereference(system.session.x=5) > 2)\n", Reads(unknown="a variable")),
    "a script": (
        "ScriptTransformation cat, [c#92]\n",
        Reads(unknown="something other than tables and views"),
    ),
    "a sample": ("Sample 0.0, 0.1, false, 257\n", Reads(unknown="something other than tables and views")),
}


def short(reads: Reads) -> Reads:
    unknown = " ".join(reads.unknown.split()[:6]) if reads.unknown.startswith("some") else reads.unknown[:10]
    return Reads(
        reads.views, reads.tables, unknown, {name: short(each) for name, each in reads.below.items()}
    )


@pytest.mark.parametrize(("tree", "wanted"), PLANS.values(), ids=PLANS)
def test_plans(tree, wanted):
    reads = read_plan(f"== Analyzed Logical Plan ==\na: int\n{tree}== Optimized Logical Plan ==\n")
    assert short(reads) == short(wanted)
    assert Reads.from_stored(reads.stored()) == reads


def test_a_plan_of_another_kind_is_unknown():
    assert read_plan("PhysicalPlan").unknown == UNREADABLE


def test_every_table_includes_those_below_views():
    assert Reads((V,), (T,), "", {V: Reads((), ("a.b.c", T))}).every_table == (T, "a.b.c")
