"""Seeds: what is in the file is in the table, or the table stays as it was."""

from __future__ import annotations

import csv
import datetime as dt
import io
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt

TEXTS = {
    "quotes": 'it\'s "quoted" and `ticked`',
    "backslashes": "C:\\new\\table \\' \\\\ \\u0041",
    "newlines": "one\ntwo\r\nthree",
    "unicode": "naïve 東京 🦆 e\u0301 \u200b",
    "comma and semicolon": "a,b;c",
    "looks like SQL": "'); drop table t; --",
    "looks like Jinja": "{{ 1 + 1 }} {% raw %}",
    "spaces": "  both ends  ",
    "a tab": "a\tb",
    "percent": "100% %s %(x)s",
    "null in words": "nullable",
}


def file(rows):
    """CSV text with every field quoted."""
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


class Base:
    def write(self, project, name, text):
        Path(project.project_root, "seeds", f"{name}.csv").write_text(text, encoding="utf-8", newline="")

    def rows(self, project, name, order="1"):
        return [
            tuple(row)
            for row in project.run_sql(
                f"select * from {project.test_schema}.{name} order by {order}", fetch="all"
            )
        ]

    def types(self, project, name):
        described = project.run_sql(f"describe {project.test_schema}.{name}", fetch="all")
        return [(row[0], row[1]) for row in described]


class TestTexts(Base):
    @pytest.fixture(scope="class")
    def seeds(self):
        return {
            "texts.csv": file([["what", "text"], *TEXTS.items()]),
            "nothing.csv": 'id,text\n1,\n2,""\n3,null\n4,"null"\n5,NULL\n6,x\n',
        }

    def test_every_text_round_trips(self, project):
        run_dbt(["seed", "--select", "texts"])
        assert dict(self.rows(project, "texts")) == TEXTS

    def test_empty_and_null_are_two_things(self, project):
        run_dbt(["seed", "--select", "nothing"])
        assert self.rows(project, "nothing") == [
            (1, None),
            (2, ""),
            (3, None),
            (4, "null"),
            (5, None),
            (6, "x"),
        ]


class TestTypes(Base):
    FILE = "a,b,c,d,e,f,g,h\n1,3000000000,1.5,2026-11-21,2026-11-21 07:05:03,true,x,\n-2,1,2,2026-01-01,2026-01-01T00:00:00,FALSE,y,\n"
    CAST = "code,amount,at\n007,1.10,2026-11-21 07:05:03.5\n010,,\n"

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"inferred.csv": self.FILE, "given.csv": self.CAST}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {
            "seeds": {
                "test": {
                    "given": {
                        "+column_types": {"code": "string", "amount": "decimal(10,2)", "at": "timestamp"}
                    }
                }
            }
        }

    def test_types_are_inferred_from_every_value(self, project):
        run_dbt(["seed", "--select", "inferred"])
        kinds = ["int", "bigint", "double", "date", "timestamp", "boolean", "string", "int"]
        assert self.types(project, "inferred") == list(zip("abcdefgh", kinds))
        at, second = dt.datetime(2026, 11, 21, 7, 5, 3), dt.datetime(2026, 1, 1)
        assert self.rows(project, "inferred", "a desc") == [
            (1, 3_000_000_000, 1.5, at.date(), at, True, "x", None),
            (-2, 1, 2.0, second.date(), second, False, "y", None),
        ]

    def test_given_types_win(self, project):
        run_dbt(["seed", "--select", "given"])
        assert self.types(project, "given") == [
            ("code", "string"),
            ("amount", "decimal(10,2)"),
            ("at", "timestamp"),
        ]
        (first, second) = self.rows(project, "given")
        assert (
            first[0] == "007"
            and str(first[1]) == "1.10"
            and first[2] == dt.datetime(2026, 11, 21, 7, 5, 3, 500_000)
        )
        assert second == ("010", None, None)


@pytest.mark.seldom
class TestFailing(Base):
    @pytest.fixture(scope="class")
    def seeds(self):
        return {"s.csv": "n\n1\n2\n"}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"seeds": {"+column_types": {"n": "int"}}}

    @pytest.mark.parametrize("flags", [[], ["--full-refresh"]])
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("n\n1\nten\n", "CAST_INVALID_INPUT"),
            ("n\n1\n3000000000\n", "CAST"),
            ("n\n1\n2,3\n", "cannot be read as CSV"),
            ("n,N\n1,2\n", "names a column twice"),
            ("", "is empty"),
        ],
        ids=["not a number", "too large", "a ragged line", "a column twice", "no header"],
    )
    def test_a_seed_that_cannot_be_loaded_leaves_the_old_table(self, project, text, message, flags):
        self.write(project, "s", "n\n1\n2\n")
        run_dbt(["seed", "--full-refresh"])
        self.write(project, "s", text)
        (result,) = run_dbt(["seed", *flags], expect_pass=False)
        assert message in result.message
        assert self.rows(project, "s") == [(1,), (2,)]


class TestHeaders(Base):
    @pytest.fixture(scope="class")
    def seeds(self):
        return {
            "odd.csv": 'id,"two\nlines","a ""quoted"" one","with, comma"\n1,a,b,c\n',
            "header_only.csv": "id,name\n",
            "bom.csv": "\ufeffid\n1\n",
        }

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"seeds": {"test": {"odd": {"+quote_columns": True}}}}

    def test_a_header_may_hold_a_quoted_newline(self, project):
        run_dbt(["seed", "--select", "odd"])
        assert [name for name, _ in self.types(project, "odd")] == [
            "id",
            "two\nlines",
            'a "quoted" one',
            "with, comma",
        ]
        assert self.rows(project, "odd") == [(1, "a", "b", "c")]

    def test_a_header_alone_is_an_empty_table(self, project):
        run_dbt(["seed", "--select", "header_only"])
        assert [name for name, _ in self.types(project, "header_only")] == ["id", "name"]
        assert self.rows(project, "header_only") == []

    def test_a_byte_order_mark_is_no_part_of_a_name(self, project):
        run_dbt(["seed", "--select", "bom"])
        assert self.types(project, "bom") == [("id", "int")]
