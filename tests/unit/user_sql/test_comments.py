"""Comments and quotes by the rules of Spark's lexer."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, analyse
from dbt.adapters.mvsink.user_sql.checks import nondeterministic_functions, without_end
from dbt.adapters.mvsink.user_sql.comments import UnreadableText, blanked
from dbt.adapters.mvsink.user_sql.splice import relation_names, replace_relations
from dbt.adapters.mvsink.user_sql.words import words
from tests.support.incremental_database import Database, Table

READ = {  # what is left of a text
    "a -- b \\\n c\n d": "a d",
    "a -- b \\\\\n c\n d": "a d",
    "a -- b \\\r\n c": "a c",
    "a -- b \\ \n c": "a c",
    "a -- b\r c": "a c",
    "a -- b \\": "a",
    "a /* b /* c */ d */ e": "a e",
    "a /* b /*+ c */ e": "a e",
    "a /* -- b */ c": "a c",
    "a -- /* b\n c */": "a c * /",
    "select /*+ coalesce(1) */ a": "select /*+ coalesce(1) */ a",
    "'-- a' b": "'-- a' b",
    "'it''s -- ' b": "'it''s -- ' b",
    "'it\\'s -- ' b": "'it\\'s -- ' b",
    "r'\\' -- b": "r'\\'",
    '"-- \' " b -- c': '"-- \' " b',
    "`-- ``'` b -- c": "`-- ``'` b",
    "a\u00a0b": "a b",
    "/* it's */ a": "a",
}


class TestRowE:
    @pytest.mark.parametrize("text", READ)
    def test_row_e_a_comment_ends_where_it_ends_for_spark(self, text):
        shown = [text[word.start : word.end] for word in words(text)]
        assert "".join(shown).replace(" ", "") == READ[text].replace(" ", "")
        assert len(blanked(text)) == len(text)

    @pytest.mark.parametrize("text", ["a /* b", "a /* b /* c */", "a 'b", 'a "b', "a `b", "a 'b\\'", "a /*/"])
    def test_row_e_what_is_not_closed_is_not_read(self, text):
        with pytest.raises(UnreadableText):
            words(text)

    def test_row_e_a_text_in_dollars_is_a_literal(self):
        [_, word, _] = words("a $x$ it's -- $$ b $x$ c")
        assert word.literal and "it's" in word.text

    def test_row_e_a_relation_in_a_comment_that_goes_on_is_none(self):
        text = "select * from a.t -- \\\n, a.u\n"
        assert relation_names(text) == ("a.t",)
        assert replace_relations(text, {"a.u": "select 1"}) == text
        assert nondeterministic_functions("select 1 -- \\\n, rand()") == []

    def test_row_e_a_query_can_be_put_in_parentheses(self):
        assert without_end("select 1 -- a \\") == "select 1"
        assert without_end("select 1 -- a") == "select 1 -- a"
        assert without_end("select 1; -- a \\") == "select 1"

    @pytest.mark.parametrize(
        "query, kept",
        [
            ("select k from t where k > 1 -- \\\n or v > 0\n", "k > 1"),
            ("select k -- , \\\n + v\n from t", "k"),
            ("select k from t -- /* \\\n where k < 0 */", "from t"),
        ],
    )
    def test_row_e_both_readings_leave_the_comment_out(self, query, kept):
        analysed = analyse(query, lambda name: [("k", "int"), ("v", "int")])
        assert isinstance(analysed, Analysed), analysed
        assert kept in analysed.text

    def test_row_e_a_comment_behind_a_subquery_that_becomes_a_join_ends_there(self):
        query = "select k from t where v = 10 and k >= (select avg(w) from s where s.k = t.k) -- all of them"
        t = Table({"k": "int", "v": "int"}, [(1, 10), (2, 20)], [((3, 10), 1), ((4, 20), 1)])
        database = Database({"t": t, "s": Table({"k": "int", "w": "int"}, [(1, 1), (2, 1), (3, 1), (4, 1)])})
        assert database.change(query) == database.difference(query)
