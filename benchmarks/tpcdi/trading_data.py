"""Trades and what follows them, the market's days, watches, cash and holdings.

What a trade is follows from its id, so that a later row of it says the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.tpcdi.reference_data import seconds
from benchmarks.tpcdi.source_schemas import SOURCES

DAY = 86_400
BEGIN, END = seconds(2012, 7, 7), seconds(2017, 7, 7)
MARKET_END = seconds(2017, 7, 5) // DAY
TYPES = np.array(["TMB", "TMS", "TSL", "TLS", "TLB"])
Columns = dict[str, Any]


def scattered(ids: np.ndarray, salt: int) -> np.ndarray:
    """A number below 2^32 for each id (splitmix64)."""
    mixed = ids.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(32)).astype(np.int64)


def table(
    name: str, rows: int, columns: Columns, dsn: np.ndarray | None = None, flag: Any = None
) -> pa.Table:
    """The columns in the order and types of the source ``name``; those of a change if ``dsn``."""
    schema = SOURCES[name]
    columns = {"cdc_flag": pa.nulls(rows, pa.string()), "cdc_dsn": pa.nulls(rows, pa.int64())} | columns
    if dsn is not None:
        columns |= {"cdc_flag": pa.array(["I"] * rows) if flag is None else flag, "cdc_dsn": dsn}
    arrays = []
    for field in schema:
        column = columns[field.name]
        if isinstance(column, np.ndarray) and pa.types.is_timestamp(field.type):
            column = pa.array(column.astype(np.int64) * 1_000_000)
        elif not isinstance(column, pa.Array):
            column = pa.array(column)
        arrays.append(column.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


@dataclass
class Trades:
    """All trades so far, by id: when, position of the account, of the symbol. ``open``: ids."""

    symbols: pa.Array
    times: np.ndarray
    accounts: np.ndarray
    symbol: np.ndarray
    open: np.ndarray

    @classmethod
    def first(cls, rng: np.random.Generator, count: int, starts: np.ndarray, symbols: pa.Array) -> Trades:
        """Five years; on 180 days there is none. The last 8 % are open."""
        closed = set(rng.choice((END - BEGIN) // DAY, 180, replace=False).tolist())
        days = np.array([day for day in range((END - BEGIN) // DAY) if day not in closed])
        times = np.sort(BEGIN + rng.choice(days, count) * DAY + rng.integers(0, DAY, count))
        accounts = started_before(rng, starts, times)
        symbol = rng.integers(0, len(symbols), count)
        ids = np.arange(count)
        return cls(symbols, times, accounts, symbol, ids[count - max(1, round(count * 0.08)) :])

    def rows(
        self, ids: np.ndarray, open_ones: np.ndarray, dsn: np.ndarray | None = None, flag: Any = None
    ) -> pa.Table:
        """A row for each of the trades ``ids``; ``open_ones`` says which of them are open."""
        price = np.round(5 + scattered(ids, 1) % 90_000 / 100, 2)
        quantity = (scattered(ids, 2) % 990 + 10).astype(np.int32)
        traded = np.round(price * (0.98 + scattered(ids, 3) % 400 / 10_000), 2)
        fee = np.round(traded * 0.0123, 2)
        commission = np.round(traded * quantity * 0.0017, 2)
        tax = np.round(traded * quantity * 0.0031, 2)
        missing = open_ones | ~self.completed(ids)
        status = np.where(open_ones, "SBMT", np.where(self.completed(ids), "CMPT", "CNCL"))
        columns = {
            "t_id": ids + 1,
            "t_dts": self.times[ids],
            "t_st_id": status,
            "t_tt_id": self.types(ids),
            "t_is_cash": (scattered(ids, 5) % 5 > 0).astype(np.int8),
            "t_s_symb": self.symbols.take(pa.array(self.symbol[ids])),
            "t_qty": quantity,
            "t_bid_price": price,
            "t_ca_id": self.accounts[ids] + 1,
            "t_exec_name": np.char.add("Executor ", (scattered(ids, 6) % 300).astype(str)),
        }
        money = {"t_trade_price": traded, "t_chrg": fee, "t_comm": commission, "t_tax": tax}
        columns |= {name: pa.array(values, mask=missing) for name, values in money.items()}
        return table("staging_trade", len(ids), columns, dsn, flag)

    @staticmethod
    def completed(ids: np.ndarray) -> np.ndarray:
        return scattered(ids, 7) % 100 < 96

    @staticmethod
    def types(ids: np.ndarray) -> np.ndarray:
        """Two in five are limit orders."""
        kind = scattered(ids, 4) % 100
        return TYPES[np.where(kind < 60, kind % 2, 2 + kind % 3)]

    def first_rows(self) -> pa.Table:
        ids = np.arange(len(self.times))
        return self.rows(ids, np.isin(ids, self.open))

    def history(self) -> pa.Table:
        """What happened to the trades of the first load, by time."""
        ids = np.arange(len(self.times))
        limit = ~np.isin(self.types(ids), ("TMB", "TMS"))
        closed = ~np.isin(ids, self.open)
        last = np.where(self.completed(ids), "CMPT", "CNCL")
        later = self.times + 60 + scattered(ids, 8) % (DAY - 60)
        each = [
            (ids, self.times, np.where(limit, "PNDG", "SBMT")),
            (ids[limit], self.times[limit] + 30, np.full(int(limit.sum()), "SBMT")),
            (ids[closed], later[closed], last[closed]),
        ]
        trades, times, status = (np.concatenate(parts) for parts in zip(*each))
        order = np.lexsort((trades, times))
        columns = {"th_t_id": trades[order] + 1, "th_dts": times[order], "th_st_id": status[order]}
        return table("batch1_trade_history", len(order), columns)

    def change(self, rng: np.random.Generator, count: int, starts: np.ndarray, begin: int) -> pa.Table:
        """Half new ones, half of those that were open for longest, now completed."""
        done = self.open[: min(count - count // 2, len(self.open))]
        first = len(self.times)
        new = np.arange(first, first + count - len(done))
        self.times = np.append(self.times, begin + 3600 + np.arange(len(new)))
        self.accounts = np.append(self.accounts, rng.integers(0, len(starts), len(new)))
        self.symbol = np.append(self.symbol, rng.integers(0, len(self.symbols), len(new)))
        self.open = np.append(self.open[len(done) :], new)
        ids = np.append(done, new)
        flag = np.where(np.arange(len(ids)) < len(done), "U", "I")
        return self.rows(ids, np.isin(ids, new), begin + 3600 + np.arange(len(ids)), flag)


def started_before(rng: np.random.Generator, starts: np.ndarray, times: np.ndarray) -> np.ndarray:
    """For each time the position of one that has started; ``starts`` are sorted."""
    started = np.maximum(np.searchsorted(starts, times), 1)
    return (rng.random(len(times)) * started).astype(np.int64)


def market_rows(symbols: pa.Array, days: int, first: int, count: int, dsn: int | None = None) -> pa.Table:
    """Rows ``first`` to ``first`` + ``count`` in the order of day and symbol; the first load has
    ``days`` days.
    """
    rows = np.arange(first, first + count)
    day, symbol = rows // len(symbols), rows % len(symbols)
    level = 20 + scattered(symbol, 11) % 200
    wave = 1 + 0.3 * np.sin(day / (20 + scattered(symbol, 12) % 60))
    close = np.round(level * wave * (0.95 + scattered(rows, 13) % 1000 / 10_000), 2)
    columns = {
        "dm_date": (MARKET_END - days + 1 + day).astype("datetime64[D]"),
        "dm_s_symb": symbols.take(pa.array(symbol)),
        "dm_close": close,
        "dm_high": np.round(close * (1 + scattered(rows, 14) % 300 / 10_000), 2),
        "dm_low": np.round(close * (1 - scattered(rows, 15) % 300 / 10_000), 2),
        "dm_vol": (scattered(rows, 16) % 100_000 + 100).astype(np.int32),
    }
    return table("staging_daily_market", count, columns, None if dsn is None else np.full(count, dsn))


@dataclass
class Watches:
    """``open``: customers and symbols (positions) of watches that were not cancelled. ``pairs``:
    customer * number of symbols + symbol, of all so far.
    """

    symbols: pa.Array
    pairs: np.ndarray
    open: np.ndarray

    @classmethod
    def first(
        cls, rng: np.random.Generator, count: int, starts: np.ndarray, symbols: pa.Array
    ) -> tuple[Watches, pa.Table]:
        """A fifth of the customers watch nothing; two thirds of the watches are cancelled later."""
        watching = np.flatnonzero(scattered(np.arange(len(starts)), 21) % 5 > 0)
        drawn = np.unique(
            rng.choice(watching, 2 * count) * len(symbols) + rng.integers(0, len(symbols), 2 * count)
        )
        pairs = rng.permutation(drawn)[:count]
        begin = np.maximum(starts[pairs // len(symbols)], BEGIN)
        placed = begin + (rng.random(len(pairs)) * (END - DAY - begin)).astype(np.int64)
        gone = rng.random(len(pairs)) < 0.66
        removed = placed + 1 + (rng.random(len(pairs)) * (END - 1 - placed)).astype(np.int64)
        events = np.concatenate([pairs, pairs[gone]])
        times = np.concatenate([placed, removed[gone]])
        actions = np.where(np.arange(len(events)) < len(pairs), "ACTV", "CNCL")
        order = np.argsort(times, kind="stable")
        self = cls(symbols, pairs, pairs[~gone])
        return self, self.rows(events[order], times[order], actions[order])

    def rows(self, pairs: np.ndarray, times: np.ndarray, actions: np.ndarray, dsn: Any = None) -> pa.Table:
        columns = {
            "w_c_id": pairs // len(self.symbols) + 1,
            "w_s_symb": self.symbols.take(pa.array(pairs % len(self.symbols))),
            "w_dts": times,
            "w_action": actions,
        }
        return table("staging_watch_history", len(pairs), columns, dsn)

    def change(self, rng: np.random.Generator, count: int, customers: int, begin: int) -> pa.Table:
        """Three in five are placed, by any customer; the others are cancelled."""
        placed = max(1, round(count * 0.6))
        drawn = rng.integers(0, customers * len(self.symbols), 20 + 2 * placed)
        new = rng.permutation(np.setdiff1d(drawn, self.pairs))[:placed]
        gone = rng.choice(self.open, min(count - placed, len(self.open)), replace=False)
        self.pairs = np.append(self.pairs, new)
        self.open = np.append(np.setdiff1d(self.open, gone), new)
        events = np.append(new, gone)
        times = begin + 7200 + np.arange(len(events))
        return self.rows(events, times, np.where(np.arange(len(events)) < len(new), "ACTV", "CNCL"), times)


def cash_rows(rng: np.random.Generator, starts: np.ndarray, times: np.ndarray, dsn: Any = None) -> pa.Table:
    """A transaction at each of ``times``, of an account that had started."""
    count = len(times)
    columns = {
        "ct_ca_id": started_before(rng, starts, times) + 1,
        "ct_dts": times,
        "ct_amt": np.round(rng.uniform(-5000, 5000, count), 2),
        "ct_name": np.char.add("Payment of kind ", rng.integers(0, 500, count).astype(str)),
    }
    return table("staging_cash_transaction", count, columns, dsn)


def cash(rng: np.random.Generator, count: int, starts: np.ndarray) -> pa.Table:
    """The first load's transactions."""
    return cash_rows(rng, starts, np.sort(rng.integers(BEGIN, END, count)))


def holdings(rng: np.random.Generator, trades: np.ndarray, dsn: Any = None) -> pa.Table:
    """Three in five of the holdings that the ``trades`` change were opened by the same trade."""
    count = len(trades)
    earlier = (rng.random(count) * (trades + 1)).astype(np.int64)
    before = rng.integers(0, 500, count)
    columns = {
        "hh_h_t_id": np.where(rng.random(count) < 0.6, trades, earlier) + 1,
        "hh_t_id": trades + 1,
        "hh_before_qty": before,
        "hh_after_qty": before + rng.integers(1, 500, count),
    }
    return table("staging_holding_history", count, columns, dsn)
