"""Which types can hold every value of another type, unchanged: a column may become one of these in
place. They are those that Delta and Iceberg call widening. Pure.
"""

from __future__ import annotations

import pyarrow as pa

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def widens(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether ``after`` is a wider type than ``before``: a longer integer, a double for a float, or
    a decimal with more digits and the same scale.

    >>> [widens(pa.int32(), each) for each in (pa.int64(), pa.int32(), pa.int16(), pa.float64())]
    [True, False, False, False]
    >>> money = pa.decimal128(10, 2)
    >>> [widens(money, pa.decimal128(*each)) for each in ((12, 2), (10, 2), (12, 3))]
    [True, False, False]
    """
    if before in INTEGERS and after in INTEGERS:
        return INTEGERS.index(before) < INTEGERS.index(after)
    if pa.types.is_decimal128(before) and pa.types.is_decimal128(after):
        return bool(before.scale == after.scale and before.precision < after.precision)
    return bool(before == pa.float32() and after == pa.float64())
