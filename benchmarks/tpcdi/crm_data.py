"""Customers, their accounts, and prospects: the events of ten years, and what a batch adds."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.tpcdi.reference_data import CITIES, FIRST_NAMES, LAST_NAMES, STATES, Row, seconds, table

BEGIN, END = seconds(2007, 7, 7), seconds(2017, 6, 7)
KINDS = ("NEW", "ADDACCT", "UPDACCT", "UPDCUST", "CLOSEACCT", "INACT")
SHARES = (0.45, 0.22, 0.15, 0.13, 0.03, 0.02)


@dataclass
class Crm:
    """``starts``: when each customer's and each account's first event was; ids are positions + 1.
    ``owners``: of the accounts.
    """

    rng: np.random.Generator
    brokers: np.ndarray
    customer_starts: list[int] = field(default_factory=list)
    account_starts: list[int] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)

    def events(self, count: int) -> pa.Table:
        """The first load: ``count`` events, no two of them at one time."""
        times = np.sort(self.rng.choice(END - BEGIN, count, replace=False)) + BEGIN
        kinds = self.rng.choice(KINDS, count, p=SHARES)
        kinds[: max(1, count // 20)] = "NEW"
        rows = [self._event(int(time), str(kind)) for time, kind in zip(times, kinds)]
        return table("batch1_customer_mgmt", rows)

    def _event(self, time: int, kind: str) -> Row:
        if kind == "NEW":
            customer = self._new_customer(time)
            account = self._new_account(time, customer)
        elif kind == "ADDACCT":
            customer = self._any(self.customer_starts)
            account = self._new_account(time, customer)
        else:
            account = self._any(self.account_starts)
            customer = self.owners[account - 1]
        inner: Row = {"_C_ID": customer}
        if kind == "NEW":
            inner |= self._person(customer)
        if kind == "NEW" or (kind == "UPDCUST" and self.rng.random() < 0.5):
            inner |= self._contact(customer)
        if kind in ("NEW", "ADDACCT", "UPDACCT", "CLOSEACCT"):
            inner["Account"] = {
                "CA_B_ID": int(self.rng.choice(self.brokers)),
                "CA_NAME": f"Account {account} of {customer}",
                "_CA_ID": account,
                "_CA_TAX_ST": account % 3,
            }
        when = dt.datetime.fromtimestamp(time, dt.timezone.utc)
        return {"_ActionTS": when, "_ActionType": kind, "Customer": inner}

    def _any(self, ids: list[int]) -> int:
        return int(self.rng.integers(len(ids))) + 1

    def _new_customer(self, time: int) -> int:
        self.customer_starts.append(time)
        return len(self.customer_starts)

    def _new_account(self, time: int, customer: int) -> int:
        self.account_starts.append(time)
        self.owners.append(customer)
        return len(self.account_starts)

    def _person(self, customer: int) -> Row:
        first, last = name_of(customer)
        return {
            "_C_TAX_ID": f"{customer:09}",
            "_C_GNDR": "FM"[customer % 2],
            "_C_TIER": customer % 3 + 1,
            "_C_DOB": _birth(customer),
            "Name": {"C_F_NAME": first, "C_L_NAME": last, "C_M_NAME": _middle(customer)},
        }

    def _contact(self, customer: int) -> Row:
        address = address_of(customer)
        number = int(self.rng.integers(10_000_000))
        phones = {
            f"C_PHONE_{which}": {
                "C_CTRY_CODE": 1,
                "C_AREA_CODE": 200 + number % 700,
                "C_LOCAL": f"{number // which:07}",
                "C_EXT": None if number % 4 else number % 1000,
            }
            for which in (1, 2, 3)
            if which < 3 or number % 2
        }
        return {
            "Address": {
                "C_ADLINE1": address["addressline1"],
                "C_ADLINE2": address["addressline2"],
                "C_CITY": CITIES[number % 10],
                "C_CTRY": "United States",
                "C_STATE_PROV": address["state"],
                "C_ZIPCODE": address["postalcode"],
            },
            "ContactInfo": {"C_PRIM_EMAIL": f"c{customer}@mail.example", "C_ALT_EMAIL": None, **phones},
            "TaxInfo": {"C_NAT_TX_ID": f"US{number % 6}", "C_LCL_TX_ID": f"CA{number % 314 + 6}"},
        }

    def prospects(self, numbers: np.ndarray) -> pa.Table:
        """Prospects of these numbers; three in ten are customers."""
        return table("staging_prospect", [self._prospect(int(number)) for number in numbers])

    def _prospect(self, number: int) -> Row:
        customer = 10_000_000 + number
        if number % 10 < 3:
            customer = min(number // 10 * 3 + number % 10 + 1, len(self.customer_starts))
        first, last = name_of(customer)
        figures = self.rng.integers(0, 1000, 7)
        return {
            "agencyid": f"P{number:08}",
            "lastname": last,
            "firstname": first,
            "middleinitial": (_middle(customer) or " ")[:1].strip() or None,
            "gender": "FM"[customer % 2],
            **address_of(customer),
            "city": CITIES[number % 10],
            "country": "United States",
            "phone": f"555-{number % 10_000:04}",
            "income": str(20_000 + int(figures[0]) * 100),
            "numbercars": int(figures[1]) % 4,
            "numberchildren": int(figures[2]) % 5,
            "maritalstatus": "SMDWU"[int(figures[3]) % 5],
            "age": 20 + int(figures[4]) % 60,
            "creditrating": 300 + int(figures[5]) % 551,
            "ownorrentflag": "OR"[number % 2],
            "employer": f"Employer {number % 97}",
            "numbercreditcards": int(figures[6]) % 8,
            "networth": int(self.rng.integers(-10_000, 1_000_000)),
        }

    def change_customers(self, count: int, begin: int) -> pa.Table:
        """Three in ten are new; the others have another city, phone and address of mail."""
        new = round(count * 0.3)
        known = self.rng.choice(
            len(self.customer_starts), min(count - new, len(self.customer_starts)), replace=False
        )
        rows = [self._changed(begin + n, int(position) + 1) for n, position in enumerate(known)]
        times = range(begin + len(rows), begin + len(rows) + new)
        rows += [
            {**self._changed(time, self._new_customer(time)), "cdc_flag": "I", "status": "ACTV"}
            for time in times
        ]
        return table("staging_customer", rows)

    def _changed(self, time: int, customer: int) -> Row:
        first, last = name_of(customer)
        number = int(self.rng.integers(10_000_000))
        row: Row = {"cdc_flag": "U", "cdc_dsn": time, "customerid": customer, "taxid": f"{customer:09}"}
        address = address_of(customer)
        row |= {name: address[name] for name in ("addressline1", "addressline2", "postalcode")}
        row |= {
            "status": "INAC" if self.rng.random() < 0.1 else "ACTV",
            "lastname": last,
            "firstname": first,
            "middleinitial": _middle(customer),
            "gender": "FM"[customer % 2],
            "tier": customer % 3 + 1,
            "dob": _birth(customer),
            "city": CITIES[number % 10],
            "stateprov": address["state"],
            "country": "United States",
            "email1": f"c{customer}.{number}@mail.example",
            "email2": f"c{customer}@post.example",
            "lcl_tx_id": f"CA{number % 314 + 6}",
            "nat_tx_id": f"US{number % 6}",
        }
        for which in (1, 2, 3):
            phone = {
                "ctry": "1",
                "area": str(200 + number % 700),
                "local": f"{number // which:07}",
                "ext": "1",
            }
            row |= {f"c_{part}_{which}": text for part, text in phone.items()}
        return row

    def change_accounts(self, count: int, begin: int) -> pa.Table:
        """Half are new, of the newest customers; the others have another broker and description."""
        new = count // 2
        known = self.rng.choice(
            len(self.account_starts), min(count - new, len(self.account_starts)), replace=False
        )
        customers = len(self.customer_starts)
        rows: list[dict[str, Any]] = []
        for position in known:
            time = begin + len(rows)
            status = "INAC" if self.rng.random() < 0.1 else "ACTV"
            rows.append(self._account(time, int(position) + 1, "U", status))
        for _ in range(new):
            time = begin + len(rows)
            customer = customers - int(self.rng.integers(max(1, customers // 20)))
            rows.append(self._account(time, self._new_account(time, customer), "I", "ACTV"))
        return table("staging_account", rows)

    def _account(self, time: int, account: int, flag: str, status: str) -> Row:
        return {
            "cdc_flag": flag,
            "cdc_dsn": time,
            "accountid": account,
            "ca_b_id": int(self.rng.choice(self.brokers)),
            "ca_c_id": self.owners[account - 1],
            "accountdesc": f"Account {account} as of {time}",
            "taxstatus": account % 3,
            "ca_st_id": status,
        }


def name_of(customer: int) -> tuple[str, str]:
    """First and last name; they repeat, the address does not."""
    return FIRST_NAMES[customer * 7 % 20], LAST_NAMES[customer * 11 // 3 % 20]


def address_of(customer: int) -> Row:
    """Where a customer lives; also the address of the prospect who is that customer."""
    return {
        "addressline1": f"{customer} {LAST_NAMES[customer % 20]} Street",
        "addressline2": f"Apartment {customer % 50}" if customer % 3 else None,
        "postalcode": f"{customer % 90_000 + 10_000}",
        "state": STATES[customer % 10],
    }


def _middle(customer: int) -> str | None:
    return FIRST_NAMES[customer % 20] if customer % 4 else None


def _birth(customer: int) -> dt.date:
    return dt.date(1940, 1, 1) + dt.timedelta(customer * 37 % 20_000)
