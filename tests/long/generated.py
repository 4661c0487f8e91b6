"""Random queries as models on Spark, over tables that change, round by round.

Half of them are those of the property tests on DuckDB (`tests.support.incremental_queries`), half
have what DuckDB does not (`tests.long.spark_queries`). 60 models share a session's tables.

    python -m tests.long.generated --seed 1 --count 20000
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.functional.test_incremental_queries import relation as constants
from tests.long import rounds
from tests.long.contents import Contents
from tests.long.judge import DEFECTS, Case, Judge
from tests.long.kept import Kept, arguments
from tests.long.rounds import Tables
from tests.long.session import session
from tests.long.spark_queries import RELATIONS, SparkQueries, relation
from tests.property.test_incremental import FOCUS
from tests.support.incremental_queries import Queries, tables
from tests.support.incremental_sources import SCHEMA
from tests.support.maintained import Warehouse, mode

BATCH, ROUNDS = 60, 3
ROWS = 4  # of a table, at most
# How many relations a query reads at most, one of these: what a change of each gives is a text of
# its own, and Spark takes 0.5 s for those of a query of two, 5 s for those of six.
SIZES = (2, 2, 2, 3, 3, 4, 6)
# of the property tests' queries: a time that moves with the rounds
CLOCK = re.compile(r"timestamp_millis\((\d+)L\)(?! /\* mv_now)")


@dataclass
class Harness:
    spark: Any
    root: Path
    kept: Kept
    rounds: int = ROUNDS
    sizes: Sequence[int] = SIZES

    def run(self, batch: int = BATCH, batches: float = math.inf) -> None:
        """Batches of models until there are as many outcomes as are wanted. Every second one leaves
        to the adapter when much changed.
        """
        number = 0
        while number < batches and sum(self.kept.counts.values()) < self.kept.count:
            if f"{number}.0" not in self.kept:
                with mode("large" if number % 2 else "wherever"):
                    self._batch(number, batch)
            number += 1

    def _batch(self, number: int, size: int) -> None:
        random, schema = Random(f"{self.kept.seed} {number}"), f"g{number}"
        one, two = f"{schema}a", f"{schema}b"
        for name in (one, two, schema):
            self.spark.sql(f"create schema {name}")
        place = self.root / schema
        warehouse = Warehouse(self.spark, place / "shards")
        contents = self._contents(random, place, one, two)
        cases = [self._case(f"{number}.{n}", random, one, two, contents) for n in range(size)]
        schema_and_name = {
            table: (name.split(".")[0], name.split(".")[1]) for name, table in contents.items()
        }
        judge = Judge(warehouse, schema, self.spark, random)
        rounds.run(judge, Tables(warehouse, schema_and_name), cases, self.kept, self.rounds, share=0.7)
        for name in (one, two, schema):
            self.spark.sql(f"drop schema {name} cascade")
        shutil.rmtree(place)

    def _contents(self, random: Random, place: Path, one: str, two: str) -> dict[str, Contents]:
        texts = {
            name.format(one=one, two=two): relation(random, columns) for name, columns in RELATIONS.items()
        }
        drawn = tables(random)
        for name, columns in SCHEMA.items():
            texts[f"{one}.{name}"] = constants(columns, [*drawn[name].old, *drawn[name].new])
        return {
            name: Contents(self.spark, self.spark.sql(text), place / name.replace(".", "_"), ROWS)
            for name, text in texts.items()
        }

    def _case(self, name: str, random: Random, one: str, two: str, contents: dict[str, Contents]) -> Case:
        relation_name = re.compile(rf"\b({'|'.join(map(re.escape, contents))})\b")
        text, most = self._text(random, one, two), random.choice(self.sizes)
        while len(relation_name.findall(text)) > most:
            text = self._text(random, one, two)
        options = {"state": "always"} if random.random() < 0.3 else {}
        references = [each for each in contents if re.search(rf"\b{re.escape(each)}\b", text)]
        return Case(name, "", text, {each: contents[each] for each in references}, references, options)

    def _text(self, random: Random, one: str, two: str) -> str:
        if random.random() < 0.5:
            return SparkQueries(random).query().replace("{one}", one).replace("{two}", two)
        drawn = Queries(random, random.choice(FOCUS), random.random() < 0.2).query()
        return re.sub(r"\b(t[012])\b(?= as | q\d)", rf"{one}.\1", drawn)


def main() -> None:
    kept, _ = arguments("generated", 20_000)
    with session() as spark, TemporaryDirectory() as root:
        Harness(spark, Path(root), kept).run()
    print(kept.summary(DEFECTS))


if __name__ == "__main__":
    main()
