"""TPC-DI's sources as Delta tables: the first load at a scale, and batches that are appended.

At scale 1 they have 1.5 million rows. The same scale and seed give the same data. `changing` are
the statements that update and delete rows in place, which a feed of TPC-DI never does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.tpcdi.crm_data import Crm
from benchmarks.tpcdi.reference_data import EPOCH, broker_ids, constants, days, employees, market
from benchmarks.tpcdi.source_schemas import SOURCES
from benchmarks.tpcdi.trading_data import DAY, END, Trades, Watches, cash, cash_rows, holdings, market_rows

# What is changed in place: the key whose hash chooses rows, and the assignment.
CHANGED_IN_PLACE = {
    "staging_trade": ("t_id", "t_qty = t_qty + 1"),
    "staging_daily_market": ("dm_s_symb, dm_date", "dm_close = round(dm_close + 0.01, 2)"),
    "staging_watch_history": ("w_c_id, w_s_symb, w_action", "w_dts = w_dts + interval 1 minute"),
    "staging_cash_transaction": ("ct_ca_id, ct_dts", "ct_amt = ct_amt + 1"),
    "staging_customer": ("customerid, cdc_dsn", "city = 'Moved'"),
    "staging_holding_history": ("hh_h_t_id, hh_t_id", "hh_after_qty = hh_after_qty + 1"),
}


@dataclass
class Feed:
    """The sources below ``place``; ``batches`` have been appended since the first load."""

    place: Path
    scale: float
    seed: int = 44
    batches: int = 0
    rows: dict[str, int] = field(default_factory=dict)  # of the first load

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def load(self) -> dict[str, int]:
        """Write the first load; the rows of each source."""
        rng, scale = self._rng, self.scale

        def rows(count: int, least: int) -> int:
            return max(least, round(count * scale))

        brokers = rows(5_000, 10)
        self._crm = Crm(rng, broker_ids(brokers))
        events = self._crm.events(rows(5_000, 60))
        listed = market(rng, rows(800, 30), rows(1_200, 40))
        self._days = 730 if scale >= 0.05 else 400
        self._market = listed.symbols[: rows(740, 30)]
        self._prospects = rows(5_000, 60)
        self._trades = Trades.first(rng, rows(130_000, 300), self._accounts, listed.symbols)
        self._watches, watches = Watches.first(rng, rows(180_000, 200), self._customers, listed.symbols)
        trades = np.sort(rng.integers(0, len(self._trades.times), rows(120_000, 200)))
        first = {
            "batch1_date": days(25_933 if scale >= 0.2 else 4_000),
            **constants(),
            "batch1_hr": employees(brokers),
            "batch1_finwire": listed.lines,
            "batch1_customer_mgmt": events,
            "batch1_trade_history": self._trades.history(),
            "staging_trade": self._trades.first_rows(),
            "staging_daily_market": market_rows(self._market, self._days, 0, len(self._market) * self._days),
            "staging_watch_history": watches,
            "staging_cash_transaction": cash(rng, rows(117_000, 200), self._accounts),
            "staging_holding_history": holdings(rng, trades),
            "staging_prospect": self._crm.prospects(np.arange(self._prospects)),
        }
        first |= {
            name: SOURCES[name].empty_table() for name in SOURCES if name not in first and name != "audit"
        }
        audit = {
            "dataset": ["Batch"],
            "batchid": [1],
            "date": [dt.date(2017, 7, 7)],
            "attribute": ["FirstDay"],
        }
        first["audit"] = pa.table({**audit, "value": [None], "dvalue": [None]}, SOURCES["audit"])
        self._write(first)
        self.rows = {name: table.num_rows for name, table in first.items()}
        self._market_rows = self.rows["staging_daily_market"]
        return self.rows

    @property
    def _accounts(self) -> np.ndarray:
        return np.array(self._crm.account_starts)

    @property
    def _customers(self) -> np.ndarray:
        return np.array(self._crm.customer_starts)

    def append(self, share: float) -> dict[str, int]:
        """Append a batch of ``share`` of the rows, a day after the last; the rows of each."""
        rng, begin = self._rng, END + self.batches * DAY
        self.batches += 1

        def rows(name: str) -> int:
            return max(1, round(share * self.rows[name]))

        def times(count: int) -> np.ndarray:
            return np.sort(begin + 10_800 + rng.integers(0, DAY - 10_800, count))

        customers = self._crm.change_customers(max(1, round(share * len(self._customers))), begin)
        accounts = self._crm.change_accounts(max(1, round(share * len(self._accounts))), begin + 1800)
        trades = self._trades.change(
            rng, max(1, round(share * len(self._trades.times))), self._accounts, begin
        )
        changed = np.sort(rng.integers(0, len(self._trades.times), rows("staging_holding_history")))
        cash_times, market_count = times(rows("staging_cash_transaction")), rows("staging_daily_market")
        batch = {
            "staging_customer": customers,
            "staging_account": accounts,
            "staging_trade": trades,
            "staging_daily_market": market_rows(
                self._market, self._days, self._market_rows, market_count, begin
            ),
            "staging_watch_history": self._watches.change(
                rng, rows("staging_watch_history"), len(self._customers), begin
            ),
            "staging_cash_transaction": cash_rows(rng, self._accounts, cash_times, cash_times),
            "staging_holding_history": holdings(rng, changed, times(len(changed))),
            "staging_prospect": self._crm.prospects(
                rng.integers(0, self._prospects, rows("staging_prospect"))
            ),
            "staging_batch_date": pa.table(
                {"batchdate": [EPOCH + dt.timedelta(begin // DAY)]}, SOURCES["staging_batch_date"]
            ),
        }
        self._market_rows += market_count
        self._write(batch)
        return {name: table.num_rows for name, table in batch.items()}

    def _write(self, tables: Mapping[str, pa.Table]) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            write_deltalake(self.place / name, table, mode="append")


def changing(source: str, table: str, rows: int) -> list[str]:
    """SQL that updates 0.5 % of the ``rows`` of ``table``, the source of that name, and deletes as
    many; one of each on average if there are fewer than 200 rows.
    """
    key, assignment = CHANGED_IN_PLACE[source]
    parts = 1000
    chosen = max(5, parts // max(rows, 3))
    part = f"pmod(xxhash64({key}), {parts})"
    return [
        f"update {table} set {assignment} where {part} < {chosen}",
        f"delete from {table} where {part} between {chosen} and {2 * chosen - 1}",
    ]
