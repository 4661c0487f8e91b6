"""Settings that users put into their profile, and that change how Spark reads, writes, parses and
plans.

The same models run under each. What they hold is what their query gives under that setting; and
where the query means the same without the setting, a run without it finds nothing to do, since
nothing in the shard may depend on it.
"""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

from tests.functional.rough.base import Case, problems, settings, three_runs

pytestmark = pytest.mark.usefixtures("small_data")

PARQUET, ON = "spark.sql.parquet.", "true"
LEGACY = (
    "datetimeRebaseModeInWrite",
    "datetimeRebaseModeInRead",
    "int96RebaseModeInWrite",
    "int96RebaseModeInRead",
)
SETTINGS = {
    "how_files_are_written": {
        PARQUET + "outputTimestampType": "TIMESTAMP_MILLIS",
        PARQUET + "writeLegacyFormat": ON,
        PARQUET + "compression.codec": "gzip",
        "spark.sql.files.maxRecordsPerFile": "100",
        "spark.sql.sources.default": "orc",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        **{PARQUET + name: "LEGACY" for name in LEGACY},
    },
    "int96": {PARQUET + "outputTimestampType": "INT96", **{PARQUET + name: "LEGACY" for name in LEGACY}},
    "how_files_are_read": {
        PARQUET + "binaryAsString": ON,
        PARQUET + "inferTimestampNTZ.enabled": "false",
        PARQUET + "enableVectorizedReader": "false",
        PARQUET + "filterPushdown": "false",
        PARQUET + "mergeSchema": ON,
        "spark.sql.files.ignoreCorruptFiles": ON,
        "spark.sql.files.ignoreMissingFiles": ON,
    },
    "plans": {
        "spark.sql.adaptive.enabled": ON,
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.groupByOrdinal": "false",
        "spark.sql.orderByOrdinal": "false",
        "spark.sql.groupByAliases": "false",
    },
    "ansi_off": {"spark.sql.ansi.enabled": "false", "spark.sql.storeAssignmentPolicy": "LEGACY"},
    "reserved_words": {"spark.sql.ansi.enforceReservedKeywords": ON},
    "case_sensitive": {"spark.sql.caseSensitive": ON},
    "redacted": {
        "spark.sql.redaction.options.regex": "(?i).",
        "spark.sql.redaction.string.regex": "(?i)[a-z]+",
    },
    "zone_and_no_substitution": {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.variable.substitute": "false",
    },
    "raw_literals": {"spark.sql.parser.escapedStringLiterals": ON},
}
# under these the query itself means something else
OTHERWISE = {"zone_and_no_substitution", "raw_literals"}

CASES = {
    "times": Case(
        "select id, timestamp'2024-02-29 12:34:56.789123' + interval 1 day * id as t, timestamp'0001-01-01' as far, "
        "timestamp_ntz'1582-10-10 01:02:03.000001' as z, date'1582-10-10' as d, cast(id as timestamp) as e, :n as n from range(5)"
    ),
    "types": Case(
        "select id as `Key`, cast(id * :n as decimal(9,3)) as `a b`, array(id, null) as `select`, map('k', id) as m, "
        "named_struct('F', id, 'g', array(cast(id as decimal(20,2)))) as s, cast('x' as binary) as b, double('NaN') as f, "
        "concat('it\\'s a \\\\ ', '${env:HOME}', id) as `text's` from range(5)"
    ),
    "copies": Case("select id % 3 as k, count(*) as n, 'password' as `secret` from range(90) where id < 80 + :n group by 1 union all select 9, 0, 'x' from range(5000)".replace("group by 1", "group by id % 3")),
}  # fmt: skip


class TestSettings:
    CASES = SETTINGS
    OFTEN = (
        "how_files_are_written",
        "how_files_are_read",
        "ansi_off",
        "zone_and_no_substitution",
        "raw_literals",
    )

    @pytest.fixture(scope="class")
    def models(self):
        return {"step.sql": "select 1L as n"} | {
            f"{setting}__{name}.sql": case.model() for setting in SETTINGS for name, case in CASES.items()
        }

    def test_two_runs_a_change_contents_and_a_run_without_the_setting(self, project, spark, case):
        names = {f"{case}__{name}": each for name, each in CASES.items()}
        with settings(spark, SETTINGS[case]):
            observed = three_runs(project, spark, names, "--select", "step", *names)
        wrong = [f"{name}: {problem}" for name in names for problem in problems(observed[name])]
        if case not in OTHERWISE:
            for result in run_dbt(["run", "--select", *names], expect_pass=None):
                if "+0 -0" not in result.message:
                    wrong.append(f"{result.node.name}: without the setting: {result.message}")
        if wrong:
            pytest.fail("\n".join(wrong), pytrace=False)
