"""The columns of TPC-DI's sources, as Arrow types."""

from __future__ import annotations

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")
TEXT, INT, LONG, DOUBLE, BYTE, DAY = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.int8(), pa.date32()
CHANGE = [("cdc_flag", TEXT), ("cdc_dsn", LONG)]


def _texts(names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, TEXT) for name in names.split()]


def _pairs(names: str) -> list[tuple[str, pa.DataType]]:
    return [pair for name in names.split() for pair in ((f"{name}id", INT), (f"{name}desc", TEXT))]


PHONE = pa.struct([("C_AREA_CODE", LONG), ("C_CTRY_CODE", LONG), ("C_EXT", LONG), ("C_LOCAL", TEXT)])
CUSTOMER = pa.struct(
    [
        (
            "Account",
            pa.struct([("CA_B_ID", LONG), ("CA_NAME", TEXT), ("_CA_ID", LONG), ("_CA_TAX_ST", LONG)]),
        ),
        ("Address", pa.struct(_texts("C_ADLINE1 C_ADLINE2 C_CITY C_CTRY C_STATE_PROV C_ZIPCODE"))),
        (
            "ContactInfo",
            pa.struct(
                [*_texts("C_ALT_EMAIL C_PRIM_EMAIL"), *((f"C_PHONE_{number}", PHONE) for number in (1, 2, 3))]
            ),
        ),
        ("Name", pa.struct(_texts("C_F_NAME C_L_NAME C_M_NAME"))),
        ("TaxInfo", pa.struct(_texts("C_LCL_TX_ID C_NAT_TX_ID"))),
        *(("_C_DOB", DAY), ("_C_GNDR", TEXT), ("_C_ID", LONG), ("_C_TAX_ID", TEXT), ("_C_TIER", LONG)),
    ]
)
PHONES = " ".join(f"c_{part}_{number}" for number in (1, 2, 3) for part in ("ctry", "area", "local", "ext"))
SOURCES: dict[str, pa.Schema] = {
    name: pa.schema(columns)
    for name, columns in {
        "batch1_date": [
            *(("sk_dateid", LONG), ("datevalue", DAY), ("datedesc", TEXT)),
            *_pairs("calendaryear calendarqtr calendarmonth calendarweek"),
            *(("dayofweeknum", INT), ("dayofweekdesc", TEXT)),
            *_pairs("fiscalyear fiscalqtr"),
            ("holidayflag", pa.bool_()),
        ],
        "batch1_industry": _texts("in_id in_name in_sc_id"),
        "batch1_status_type": _texts("st_id st_name"),
        "batch1_tax_rate": [*_texts("tx_id tx_name"), ("tx_rate", pa.float32())],
        "batch1_trade_type": [*_texts("tt_id tt_name"), ("tt_is_sell", INT), ("tt_is_mrkt", INT)],
        "batch1_hr": _texts(
            "employeeid managerid employeefirstname employeelastname employeemi employeejobcode "
            "employeebranch employeeoffice employeephone"
        ),
        "batch1_finwire": [("line", TEXT), ("rec_type", TEXT), ("pts", TIME)],
        "batch1_customer_mgmt": [("_ActionTS", TIME), ("_ActionType", TEXT), ("Customer", CUSTOMER)],
        "batch1_trade_history": [("th_t_id", LONG), ("th_dts", TIME), ("th_st_id", TEXT)],
        "staging_trade": [
            *CHANGE,
            *(("t_id", LONG), ("t_dts", TIME), ("t_st_id", TEXT), ("t_tt_id", TEXT), ("t_is_cash", BYTE)),
            *(("t_s_symb", TEXT), ("t_qty", INT), ("t_bid_price", DOUBLE), ("t_ca_id", LONG)),
            *(("t_exec_name", TEXT), ("t_trade_price", DOUBLE), ("t_chrg", DOUBLE), ("t_comm", DOUBLE)),
            ("t_tax", DOUBLE),
        ],
        "staging_daily_market": [
            *CHANGE,
            *(("dm_date", DAY), ("dm_s_symb", TEXT), ("dm_close", DOUBLE), ("dm_high", DOUBLE)),
            *(("dm_low", DOUBLE), ("dm_vol", INT)),
        ],
        "staging_watch_history": [
            *CHANGE,
            *(("w_c_id", LONG), ("w_s_symb", TEXT), ("w_dts", TIME), ("w_action", TEXT)),
        ],
        "staging_cash_transaction": [
            *CHANGE,
            *(("ct_ca_id", LONG), ("ct_dts", TIME), ("ct_amt", DOUBLE), ("ct_name", TEXT)),
        ],
        "staging_holding_history": [
            *CHANGE,
            *((name, INT) for name in ("hh_h_t_id", "hh_t_id", "hh_before_qty", "hh_after_qty")),
        ],
        "staging_prospect": [
            *_texts(
                "agencyid lastname firstname middleinitial gender addressline1 addressline2 postalcode city "
                "state country phone income"
            ),
            *((name, INT) for name in ("numbercars", "numberchildren")),
            ("maritalstatus", TEXT),
            *((name, INT) for name in ("age", "creditrating")),
            *_texts("ownorrentflag employer"),
            *((name, INT) for name in ("numbercreditcards", "networth")),
        ],
        "staging_customer": [
            *CHANGE,
            *(("customerid", LONG), *_texts("taxid status lastname firstname middleinitial gender")),
            *(("tier", BYTE), ("dob", DAY)),
            *_texts(f"addressline1 addressline2 postalcode city stateprov country {PHONES}"),
            *_texts("email1 email2 lcl_tx_id nat_tx_id"),
        ],
        "staging_account": [
            *CHANGE,
            *(("accountid", LONG), ("ca_b_id", LONG), ("ca_c_id", LONG), ("accountdesc", TEXT)),
            *(("taxstatus", BYTE), ("ca_st_id", TEXT)),
        ],
        "staging_batch_date": [("batchdate", DAY)],
        "audit": [
            *(("dataset", TEXT), ("batchid", INT), ("date", DAY), ("attribute", TEXT), ("value", LONG)),
            ("dvalue", pa.decimal128(15, 5)),
        ],
    }.items()
}
