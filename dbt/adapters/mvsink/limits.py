"""The sizes that decide how a run computes, each with its unit and the source of the figure.

Tests move them by ``monkeypatch.setattr(limits, ...)``, so they are read as ``limits.NAME``.
"""

from __future__ import annotations

DAY = 86_400_000  # ms

# What verifications may cost: a share of the time of the runs since the last one; and the ms after
# which one is due, whatever ran. An hourly model of which a tenth is verified pays for it twice.
VERIFY_SHARE = 0.1
VERIFY_AT_LATEST = 7 * DAY

# What may be computed from the changes of the inputs (benchmarks.choice, docs/performance.md):
# Changes of an input, of which a replaced row is two, as a share of its rows; beyond, evaluating
# the query costs less. Where it groups, all rows with the key of one that changed are read again.
MAX_CHANGED = 0.1
MAX_CHANGED_LINEAR = 0.4
# Keys that may differ, as a share of the shard's rows; beyond, all rows are compared.
MAX_KEYS = 0.2
# Rows of a shard. As many are not compared because all of them may differ.
MANY_ROWS = 100_000
# Of an input: as many changes are never a large share of its rows. Inputs that begin empty, or with
# a few rows, would seem to change as a whole.
FEW_CHANGES = 1_000
# As many are a large share that is tried once, unless evaluating the query is quick: they take a
# few seconds.
TRIED_CHANGES = 50_000
# All that a query reads, with its own rows: evaluated, it is a Spark job or two. Rows of a few
# values compress well: 5.8 million took 8.6 MB, and 36 s.
SMALL_BYTES = 32 * 2**20
SMALL_ROWS = 1_000_000
# The same, so little that what the first load took says more of the session than of the query.
TINY_BYTES = 2**20
TINY_ROWS = 10_000
# Seconds. An incremental run takes 0.25 or more.
QUICK_EVALUATION = 0.4
# Seconds of an evaluation from which on the changes of little data, and of much of an input, are
# worth a try.
SLOW_EVALUATION = 0.8
# Places where a query reads relations: the query of a change has a term for each.
MAX_PLACES = 500
# Conditions that the changes of an input must fulfil: the values that one lists, and the places
# where the input is read. More is too much to evaluate for every row.
FILTERED_VALUES = 100
FILTERED_PLACES = 20

# Rows that an incremental run looks for:
# Staged values of a column, or hashes, that are read to look for rows with them.
LISTED_KEYS = 100_000
# The same for the rows of an input, of all its columns together; many are equal.
LISTED_VALUES = 5 * LISTED_KEYS
# Rows of a shard whose hashes are read into this process, 16 bytes each, a few files at a time.
# Where Spark has the same cores, its job takes twice as long: 2.0 s in place of 0.9 for 30 million.
SEARCHED_ROWS = 10_000_000
SEARCHED_ROWS_HERE = 10 * SEARCHED_ROWS

# What this process computes in place of Spark (`local`), of which a job takes 30 to 50 ms:
# Rows that are added up: 50,000 take this process less CPU than they take two stages of Spark.
LOCAL_ROWS = 50_000
# The same with nested columns, which are compared one by one in Python.
LOCAL_NESTED_ROWS = 2_000
# Bytes of the files that hold them; and of a query's result in memory, which Arrow, unlike a file,
# does not compress.
LOCAL_BYTES = 16 * 2**20
DECODED_BYTES = 4 * LOCAL_BYTES
# Of rows that are looked for in a large shard: the bytes that they take of its files, and the
# number of files. Each costs two requests, which on an object store are 50 ms.
FOUND_BYTES = 4 * LOCAL_BYTES
FOUND_FILES = 100
# Files that are read at once. To decode one of more than LOCAL_BYTES takes longer than to request
# it, so no more of these are read at once than there are cores. Of hashes: files in memory.
FILES_AT_ONCE = 4
HASH_FILES_AT_ONCE = 4
# Rows that one task of Spark joins and groups sooner than several tasks exchange them.
ONE_TASK_ROWS = 100_000
# Bytes of the files that a negation copies: an interrupt is noticed when the copy is made. Bytes of
# a chunk of a file, which are several times as many in memory, and rows of it and of a row group.
NEGATED_BYTES = 2 * 2**30
CHUNK_BYTES = 8 * 2**20
CHUNK_ROWS = 2**17

# How an evaluated query is compared (benchmarks.wide_join, docs/performance.md):
# Rows of a shard that is compared by whole rows, in one statement, and the bytes of its files: to
# detect first takes two more. With 166,000 and 289,000 rows it took 0.6 and 0.75 of the time.
COMPARED_WHOLE = 400_000
COMPARED_WHOLE_BYTES = 64 * 2**20
# Of the rows of both sides: beyond, comparing costs as much as writing them.
NEARLY_ALL = 0.4
# Rows that one changed row of an input may change, as long as no run has shown how many.
CHANGED_PER_CHANGE = 10
# Rows of a base. Below, evaluating the query twice costs little, and no column locates its rows.
LOCATED_ROWS = 1_000_000
# Rows of the sample that shows which column locates them; the share of them with different values,
# at least, and with one value other than NULL, at most.
LOCATOR_SAMPLE = 10_000
LOCATOR_DISTINCT = 0.1
LOCATOR_FREQUENCY = 0.01

# What runs remember of their predecessors, in commits.
REMEMBERED = 20
# After so many runs that each replaced so much of a model it can be said that its readers evaluate
# their queries.
REWRITING = 5
REWRITTEN = 0.5
# Of the seconds that evaluating the query takes: an incremental run that takes less is worthwhile.
WORTHWHILE = 0.8
# As many times the seconds: then it is tried again, for there is so much more data that both ways
# take longer. As many times the rows changed: from the changes, too, it would have taken longer.
FAR_LONGER = 2.0
FAR_MORE = 2.0
# As many times the seconds of an evaluation: more changes than any before are tried if they are
# expected to take no more, at worst, than that.
TRIAL = 2.0
# As small a part of the share of an input that had changed: then earlier runs from the changes do
# not say how long this one takes.
FAR_LESS = 10
# An evaluation in seconds of the first load, where none is known (benchmarks.choice): by the share
# of an input's rows that changed at most, and where more did.
BY_LOAD = ((0.01, 0.6), (0.05, 1.0))
BY_LOAD_OF_MANY = 2.0
# Seconds by which a first load may have taken longer because its session was new, but at most half
# of the guess: while no evaluation is known, one may be worth a try.
NEW_SESSION = 2.0
# Seconds that comparing what was evaluated takes besides, however little that is: a statement.
COMPARING = 0.3
# Ms between two drifts of a model that are no accident.
DRIFTS_AGAIN = 30 * DAY

# Ms of history that a change of columns may end without being asked for.
HISTORY_TO_END = DAY

# What `max_change: auto` learns from: a bound that anyone can check by head. In a simulated year of
# hourly runs that differ by a factor of 30, it refuses fewer than 2 of 1,000 (test_learned_change).
# Commits of the log that are read; the newest changes among them that count, and how many there are
# at least: with fewer there is no bound.
CHANGES_READ = 500
CHANGES_REMEMBERED = 20
CHANGES_ENOUGH = 8
# Times the largest of them, and rows that may change in any case.
CHANGE_FACTOR = 4
CHANGE_FLOOR = 100
# Commits: if contents are older, they are audited as a whole.
AUDITED_COMMITS = 50

# Ms by which an upper, or a run's time, may be ahead of the clock without a warning, and a run's
# time without an error: until that time has passed, no other run can write.
AHEAD_OF_CLOCK = 60_000
FAR_AHEAD = DAY

# Runs of models (`materialization`):
# Characters of a view's text; in a longer one columns have short names. The embedded metastore
# keeps 32,700.
LONG_VIEW = 24_000
# Directories in a view's text, at most: compaction leaves 16 beside the base (`shard.policy`).
VIEW_BATCHES = 17
# Times that a view is published because the shard's files changed meanwhile.
PUBLISH_ROUNDS = 100
# Times that another run was replacing the same view.
MEETINGS = 20
# Shards whose owners are read at once, because their logs may be on an object store.
OWNERS_AT_ONCE = 8
# One of as many models, at least one, evaluates its query to prove a new reading of it: if all did,
# a run after an upgrade would take far longer than the last.
PROVING_SHARE = 10
# Versions of the log of a shard of sums. While it has no more, the sums of earlier queries are
# retired.
NEW_SUMS = 5
# Compactions that a purge loses to other writers before it gives up.
PURGE_ROUNDS = 10
