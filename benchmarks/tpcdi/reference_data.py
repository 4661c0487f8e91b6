"""What the first load knows of days, industries, taxes, employees, companies and securities."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.tpcdi.source_schemas import SOURCES

Row = dict[str, Any]
FIRST_DAY = dt.date(1950, 1, 1)
EPOCH = dt.date(1970, 1, 1)
FIRST_NAMES = [
    "Ada",
    "Bram",
    "Cleo",
    "Dev",
    "Edda",
    "Finn",
    "Gita",
    "Hugo",
    "Inez",
    "Joao",
    "Kaya",
    "Lars",
    "Mina",
    "Nils",
    "Olga",
    "Pia",
    "Quim",
    "Rosa",
    "Sami",
    "Tove",
]
LAST_NAMES = [
    "Abel",
    "Bauer",
    "Costa",
    "Diaz",
    "Ekman",
    "Fuchs",
    "Green",
    "Haas",
    "Ito",
    "Jones",
    "Klein",
    "Lopez",
    "Meyer",
    "Novak",
    "Olsen",
    "Park",
    "Quist",
    "Reed",
    "Sato",
    "Turk",
]
CITIES = ["Aurora", "Bristol", "Cairo", "Dover", "Elgin", "Fargo", "Galena", "Hilo", "Ithaca", "Juneau"]
STATES = ["AL", "CA", "GA", "IL", "ME", "NY", "OH", "TX", "UT", "WA"]
STATUS = {
    "ACTV": "Active",
    "CMPT": "Completed",
    "CNCL": "Canceled",
    "PNDG": "Pending",
    "SBMT": "Submitted",
    "INAC": "Inactive",
}
TRADE_TYPES = [
    ("TMB", "Market Buy", 0, 1),
    ("TMS", "Market Sell", 1, 1),
    ("TSL", "Stop Loss", 1, 0),
    ("TLS", "Limit Sell", 1, 0),
    ("TLB", "Limit Buy", 0, 0),
]
RATINGS = [
    "AAA",
    "AA+",
    "AA",
    "AA-",
    "A+",
    "A",
    "A-",
    "BBB+",
    "BBB",
    "BBB-",
    "BB+",
    "BB",
    "BB-",
    "B+",
    "B",
    "B-",
    "CCC+",
    "CCC",
    "CCC-",
    "CC",
    "C",
    "D",
]
BROKER = "314"


def seconds(year: int, month: int, day: int) -> int:
    """The first second of a day, since 1970."""
    return ((dt.date(year, month, day) - EPOCH).days) * 86_400


def table(name: str, rows: list[Row]) -> pa.Table:
    """Rows as a table of the source ``name``."""
    return pa.Table.from_pylist(rows, SOURCES[name])


def days(count: int) -> pa.Table:
    """The calendar, from 1950 on."""
    return table("batch1_date", [_day(FIRST_DAY + dt.timedelta(number)) for number in range(count)])


def _day(day: dt.date) -> Row:
    quarter, week = (day.month - 1) // 3 + 1, day.isocalendar()
    fiscal = day + dt.timedelta(184)  # the fiscal year begins in July
    fiscal_quarter = (fiscal.month - 1) // 3 + 1
    return {
        "sk_dateid": day.year * 10_000 + day.month * 100 + day.day,
        "datevalue": day,
        "datedesc": day.strftime("%B %d, %Y"),
        "calendaryearid": day.year,
        "calendaryeardesc": str(day.year),
        "calendarqtrid": day.year * 10 + quarter,
        "calendarqtrdesc": f"{day.year} Q{quarter}",
        "calendarmonthid": day.year * 100 + day.month,
        "calendarmonthdesc": day.strftime("%Y %B"),
        "calendarweekid": week.year * 100 + week.week,
        "calendarweekdesc": f"{week.year}-W{week.week}",
        "dayofweeknum": week.weekday,
        "dayofweekdesc": day.strftime("%A"),
        "fiscalyearid": fiscal.year,
        "fiscalyeardesc": str(fiscal.year),
        "fiscalqtrid": fiscal.year * 10 + fiscal_quarter,
        "fiscalqtrdesc": f"{fiscal.year} Q{fiscal_quarter}",
        "holidayflag": (day.month, day.day) in ((1, 1), (7, 4), (12, 25)),
    }


def constants() -> dict[str, pa.Table]:
    """The tables that are the same at every scale."""
    letters = "ABCDEFGHIJ"
    industries = [a + b for a, b in itertools.product(letters, letters)]
    rates = [f"{'US' if number < 6 else 'CA'}{number}" for number in range(320)]
    return {
        "batch1_industry": table(
            "batch1_industry",
            [{"in_id": i, "in_name": f"Industry {i}", "in_sc_id": i[0] * 2} for i in industries],
        ),
        "batch1_status_type": table(
            "batch1_status_type", [{"st_id": key, "st_name": name} for key, name in STATUS.items()]
        ),
        "batch1_tax_rate": table(
            "batch1_tax_rate",
            [{"tx_id": i, "tx_name": f"Tax {i}", "tx_rate": n % 40 / 100} for n, i in enumerate(rates)],
        ),
        "batch1_trade_type": table(
            "batch1_trade_type",
            [dict(zip(("tt_id", "tt_name", "tt_is_sell", "tt_is_mrkt"), each)) for each in TRADE_TYPES],
        ),
    }


def employees(count: int) -> pa.Table:
    """Three in ten are brokers; their ids are `broker_ids`."""
    rows = []
    for number in range(1, count + 1):
        rows.append(
            {
                "employeeid": str(number),
                "managerid": str(number // 10 + 1),
                "employeefirstname": FIRST_NAMES[number % 20],
                "employeelastname": LAST_NAMES[number // 20 % 20],
                "employeemi": "ABCDEFG"[number % 7] if number % 3 else None,
                "employeejobcode": BROKER if number % 10 < 3 else str(100 + number % 50),
                "employeebranch": f"Branch {number % 37}",
                "employeeoffice": f"OFFICE{number % 411}",
                "employeephone": f"({200 + number % 700}) 555-{number % 10_000:04}",
            }
        )
    return table("batch1_hr", rows)


def broker_ids(count: int) -> np.ndarray:
    """Of ``count`` employees."""
    ids = np.arange(1, count + 1)
    return ids[ids % 10 < 3]


@dataclass(frozen=True)
class Market:
    """Companies with the securities that they issued, and the lines that report both."""

    lines: pa.Table
    symbols: pa.Array


def market(rng: np.random.Generator, companies: int, securities: int) -> Market:
    """Companies begin before 2005, securities before 2012; later versions follow until 2017."""
    lines: list[tuple[int, str, str]] = []
    later = seconds(2017, 6, 1)
    for number in range(companies):
        start = int(rng.integers(seconds(1990, 1, 1), seconds(2004, 12, 1)))
        versions = _times(rng, start, seconds(2005, 1, 1), later, rng.choice([1, 2, 3], p=[0.55, 0.3, 0.15]))
        lines += [(time, "CMP", _company(rng, number)) for time in versions]
        lines += _reports(rng, number, int(rng.integers(10, 36)))
    symbols = [_symbol(number) for number in range(securities)]
    for number, symbol in enumerate(symbols):
        start = int(rng.integers(seconds(2005, 1, 1), seconds(2011, 12, 1)))
        versions = _times(rng, start, seconds(2012, 1, 1), later, rng.choice([1, 2, 3], p=[0.75, 0.2, 0.05]))
        lines += [(time, "SEC", _security(rng, number, symbol, number % companies)) for time in versions]
    lines.sort()
    texts = [f"{_stamp(time)}{kind}{rest}" for time, kind, rest in lines]
    times = pa.array([time * 1_000_000 for time, _, _ in lines], pa.timestamp("us", tz="UTC"))
    kinds = [kind for _, kind, _ in lines]
    table_of_lines = pa.table({"line": texts, "rec_type": kinds, "pts": times}, SOURCES["batch1_finwire"])
    return Market(table_of_lines, pa.array(symbols))


def _times(rng: np.random.Generator, first: int, begin: int, end: int, count: int) -> list[int]:
    return [first, *sorted(map(int, rng.choice(np.arange(begin, end, 3607), count - 1, replace=False)))]


def _stamp(time: int) -> str:
    return dt.datetime.fromtimestamp(time, dt.timezone.utc).strftime("%Y%m%d-%H%M%S")


def _symbol(number: int) -> str:
    text = ""
    for _ in range(5):
        number, letter = divmod(number, 26)
        text = chr(65 + letter) + text
    return text


def _name(company: int) -> str:
    return f"{LAST_NAMES[company % 20]} {company:05} Holding"


def _cik(company: int) -> int:
    return 1_000_000_000 + company


def _reference(rng: np.random.Generator, company: int) -> str:
    """How a report or a security names its company."""
    return str(_cik(company)) if rng.random() < 0.7 else _name(company)


def _company(rng: np.random.Generator, number: int) -> str:
    founded = "" if number % 9 == 0 else f"19{number % 90 + 10:02}{number % 12 + 1:02}15"
    industry = "ABCDEFGHIJ"[number % 10] + "ABCDEFGHIJ"[number // 10 % 10]
    return (
        f"{_name(number):60}{_cik(number):10}{'INAC' if rng.random() < 0.05 else 'ACTV':4}{industry:2}"
        f"{RATINGS[int(rng.integers(len(RATINGS)))]:4}{founded:8}{f'{number % 900 + 1} Main Street':80}"
        f"{f'Floor {number % 30}' if number % 3 else '':80}{f'{number % 90_000 + 10_000}':12}"
        f"{CITIES[int(rng.integers(10))]:25}{STATES[number % 10]:20}{'United States':24}"
        f"{FIRST_NAMES[int(rng.integers(20))] + ' ' + LAST_NAMES[number % 20]:46}{f'Makes things of kind {number % 77}':150}"
    )


def _reports(rng: np.random.Generator, company: int, count: int) -> list[tuple[int, str, str]]:
    """The last ``count`` quarters before the middle of 2017."""
    lines = []
    for back in range(count):
        year, quarter = divmod(2017 * 4 + 1 - back, 4)
        begin = dt.date(year, quarter * 3 + 1, 1)
        posted = begin + dt.timedelta(int(rng.integers(20, 80)))
        time = (posted - EPOCH).days * 86_400 + int(rng.integers(86_400))
        money = rng.uniform(1e5, 1e9, 5)
        ratios = rng.uniform(-2, 9, 3)
        shares = int(rng.integers(10_000, 9_000_000))
        lines.append(
            (
                time,
                "FIN",
                f"{year:4}{quarter + 1:1}{begin:%Y%m%d}{posted:%Y%m%d}{money[0]:17.2f}{money[1]:17.2f}"
                f"{ratios[0]:12.2f}{ratios[1]:12.2f}{ratios[2]:12.2f}{money[2]:17.2f}{money[3]:17.2f}"
                f"{money[4]:17.2f}{shares:13}{shares + 1000:13}{_reference(rng, company):60}",
            )
        )
    return lines


def _security(rng: np.random.Generator, number: int, symbol: str, company: int) -> str:
    kinds, exchanges = ("COMMON", "PREF_A", "PREF_B"), ("NYSE", "NASDAQ", "AMEX", "PCX")
    return (
        f"{symbol:15}{kinds[number % 3]:6}{'INAC' if rng.random() < 0.05 else 'ACTV':4}{f'Share {symbol}':70}"
        f"{exchanges[int(rng.integers(4))]:6}{int(rng.integers(1_000, 9_000_000)):13}2000{number % 12 + 1:02}10"
        f"2001{number % 12 + 1:02}20{rng.uniform(0, 5):12.2f}{_reference(rng, company):60}"
    )
