"""What a shard's newest commits say about the runs that made them: how each computed its contents,
how long it took, and how much it changed. Pure.

Runs that are no longer among the newest `limits.REMEMBERED` commits are forgotten, and what they
ruled out is tried again. If a model's last runs were

    evaluated 4.0 s, incremental 5.0 s, incremental 4.5 s

the incremental ones were not worthwhile (`slow`), and the query is evaluated until the log forgets
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.reasons import Why
from dbt.adapters.mvsink.shard import CommitNote, StagingHandle
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink.detection import Buckets

# modes of commits: how the contents were computed
INCREMENTAL, SUMMED, EVALUATED, LOADED = "incremental", "sums", "evaluated", "loaded"
BUCKETS, HASHES, ONCE = "buckets", "hashes", "once"  # ways of what was `EVALUATED`, see `write`


_Timed = tuple[int, CommitNote, float]  # a commit's place, its note, and its seconds


@dataclass(frozen=True)
class RunHistory:
    """The ``notes`` of the newest commits, oldest first."""

    notes: tuple[CommitNote, ...]

    @classmethod
    def of(cls, handle: StagingHandle) -> RunHistory:
        return cls(tuple(commit.note for commit in handle.history(limits.REMEMBERED)))

    def seconds(self) -> dict[str, float]:
        """The seconds of the newest run of each kind: `evaluated` (the first load if there is no
        other) and `incremental`, with sums or without.
        """
        newest_of = {"evaluated": self._evaluated()}
        newest = max((*self._timed(INCREMENTAL), *self._timed(SUMMED)), default=None, key=_place)
        newest_of["incremental"] = None if newest is None else newest[2]
        return {kind: each for kind, each in newest_of.items() if each is not None}

    # whether to compute from the changes

    def quick(self) -> bool:
        """Whether evaluating the query takes hardly longer than any incremental run."""
        evaluated = self._evaluated()
        return evaluated is not None and evaluated < limits.QUICK_EVALUATION

    def changes_may_pay(self) -> bool:
        """Whether computing from the changes of little data may cost less than evaluating the
        query: that takes long, and the other way was faster or has not been tried.
        """
        evaluated = self._evaluated()
        if evaluated is None or evaluated < limits.SLOW_EVALUATION:
            return False
        last, _ = self.last_two()
        return not last or min(last) <= limits.WORTHWHILE * evaluated

    def evaluated_before(self) -> bool:
        """Whether a run has evaluated the query and corrected the shard, after the first load."""
        return bool(self._timed(EVALUATED))

    def slow(self, mode: str = INCREMENTAL) -> bool:
        """Whether evaluating the query takes hardly longer than the last two runs of this mode."""
        last, evaluated = self.last_two(mode)
        return len(last) == 2 and evaluated is not None and min(last) > limits.WORTHWHILE * evaluated

    def last_two(self, mode: str = INCREMENTAL) -> tuple[list[float], float | None]:
        """The seconds of the last two runs of this mode, as far as there are any, and those that
        evaluating the query takes beside them, if that is known.
        """
        last = self._timed(mode)[-2:]
        return [seconds for _, _, seconds in last], self._evaluated_beside(last) if last else None

    def most_keys_change(self) -> bool:
        """Whether most keys could differ in the last two runs that computed which ones."""
        return self._last_two(Why.MANY_KEYS)

    def shares(self, why: Why) -> list[float | None]:
        """The shares of the inputs that had changed in the two runs by which `slow`, or for that
        ``why`` `most_keys_change`, judges.
        """
        if why is Why.USUALLY_MANY_KEYS:
            runs = [note for note in self.notes if note.why == Why.MANY_KEYS.code]
        else:
            runs = [note for note in self.notes if note.mode in (INCREMENTAL, SUMMED)]
        return [note.share for note in runs[-2:]]

    def bearable(self) -> float:
        """The largest share of an input that may have changed, judging by the incremental run of
        which most had: as much if it was worthwhile, and as much more as would take
        `limits.TRIAL` times an evaluation if its seconds grow with the share; else so much less.
        0 if that is not known.
        """
        runs = [run for mode in (INCREMENTAL, SUMMED) for run in self._timed(mode) if run[1].share]
        if not runs:
            return 0.0
        newest = max(runs, key=lambda run: (run[1].share or 0.0, run[0]))
        evaluated = self._evaluated_beside([newest]) if self.evaluated_before() else None
        share, seconds = newest[1].share or 0.0, max(newest[2], 0.001)
        if evaluated is None:
            return 0.0
        if seconds > limits.WORTHWHILE * evaluated:
            return share * limits.WORTHWHILE * evaluated / seconds
        return share * max(1.0, limits.TRIAL * evaluated / seconds)

    def much_untried(self) -> bool:
        """Whether no run has computed from changes of a large share of an input, and evaluating the
        query, which takes long, is the only way whose seconds are known.
        """
        evaluated = self._evaluated() if self.evaluated_before() else None
        if evaluated is None or evaluated < limits.SLOW_EVALUATION:
            return False
        runs = [note for note in self.notes if note.mode in (INCREMENTAL, SUMMED)]
        return all((note.share or 0.0) <= limits.MAX_CHANGED for note in runs)

    def much_changes(self) -> bool:
        """Whether much of an input had changed in the last two runs that read the changes."""
        return self._last_two(Why.MUCH_CHANGED)

    def _last_two(self, why: Why) -> bool:
        """Whether ``why`` stopped both of the last two runs, not counting runs that something else
        stopped.
        """
        stopped = [
            note.why == why.code
            for note in self.notes
            if note.why == why.code or note.mode in (INCREMENTAL, SUMMED)
        ]
        return stopped[-2:] == [True, True]

    # how to compare what was evaluated

    def comparison(self, shard: Layout, input_changes: int | None = None) -> str:
        """How to compare a large shard with its query's rows, of whose inputs so many rows changed;
        None if that is not known.

        Between few changes and nearly all, it depends on the query which costs less: evaluating it
        a second time, or writing and reading all its rows. Both are tried; then the faster one is
        used until the log forgets the other.
        """
        changed = self.expected_change(shard, input_changes)
        if not shard.detectable or nearly_all(changed, shard.rows, shard):
            return ONCE
        if changed < Buckets.of(shard).nearly_all:
            return BUCKETS
        took = {
            note.way: note.seconds
            for note in self.notes
            if note.seconds is not None and note.way in (HASHES, ONCE)
        }
        untried = [way for way in (HASHES, ONCE) if way not in took]
        return untried[0] if untried else min(took, key=took.__getitem__)

    def expected_change(self, shard: Layout, input_changes: int | None) -> int:
        """How many rows a run will insert and delete: as many for each changed row of the inputs as
        the run with the most similar number of these. If none is remembered, as many as the last
        run, but at most `limits.CHANGED_PER_CHANGE` for each.
        """
        if input_changes is None:
            return self.changed_last(shard)
        counted = [(note.input_changes, _rows(note)) for note in self.notes if note.input_changes]
        if not counted:
            return min(self.changed_last(shard), limits.CHANGED_PER_CHANGE * input_changes)

        def unlike(run: tuple[int, int]) -> float:
            return max(run[0], input_changes) / max(min(run[0], input_changes), 1)

        before, rows = min(reversed(counted), key=unlike)
        return rows * input_changes // before

    def changed_last(self, shard: Layout) -> int:
        """How many rows the last run inserted and deleted, as far as the log has it.

        0 if these are all rows: then it was the first load.
        """
        for note in reversed(self.notes):
            if note.computed_through is not None:
                first = note.rows_deleted == 0 and note.rows_inserted >= shard.rows
                return 0 if first or note.mode == LOADED else _rows(note)
        return 0

    # what readers pay

    def rewritten(self, rows: int) -> float | None:
        """The share of ``rows`` that each of the last `limits.REWRITING` runs replaced, at least;
        None if there are fewer.
        """
        runs = [note for note in self.notes if note.mode in (INCREMENTAL, SUMMED, EVALUATED)][
            -limits.REWRITING :
        ]
        if not rows or len(runs) < limits.REWRITING:
            return None
        return min(1.0, min(note.rows_deleted for note in runs) / rows)

    # seconds

    def _evaluated(self) -> float | None:
        """The seconds of the last run that evaluated the query and corrected the shard. If none
        did, it is assumed to take as long as the first load.
        """
        for mode in (EVALUATED, LOADED):
            if runs := self._timed(mode):
                return runs[-1][2]
        return None

    def _evaluated_beside(self, runs: list[_Timed]) -> float | None:
        """The seconds of an evaluation that changed about as much as ``runs``, or of any if there
        is no such one. It is the newest one, unless the first one after ``runs`` was somewhat
        faster.
        """
        changed = max(_rows(note) for _, note, _ in runs)
        every = self._timed(EVALUATED)
        alike = [each for each in every if _rows(each[1]) <= limits.FAR_MORE * changed] or every
        following = [seconds for at, _, seconds in alike if at > runs[-1][0]]
        if not alike:
            return self._by_load(max(note.share or 0.0 for _, note, _ in runs))
        newest = alike[-1][2]
        if following and newest <= limits.FAR_LONGER * following[0]:
            return min(newest, following[0])
        return newest

    def _by_load(self, changed: float) -> float | None:
        """How long an evaluation will take after that share of an input changed, estimated from the
        first load: unlike a load, it also compares all rows, but writes only those that changed,
        and its session is not new.
        """
        loads = self._timed(LOADED)
        if not loads:
            return None
        part = next((part for most, part in limits.BY_LOAD if changed <= most), limits.BY_LOAD_OF_MANY)
        guess = loads[-1][2] * part
        return guess - min(limits.NEW_SESSION, guess / 2) + limits.COMPARING

    def _timed(self, mode: str) -> list[_Timed]:
        return [
            (at, note, note.seconds)
            for at, note in enumerate(self.notes)
            if note.mode == mode and note.seconds is not None
        ]


def nearly_all(changed: int, rows: int, shard: Layout) -> bool:
    """Whether ``changed`` is nearly all of the rows of both sides, the query's and the shard's."""
    return rows > 0 and changed >= limits.NEARLY_ALL * (rows + shard.rows)


def _place(run: _Timed) -> int:
    return run[0]


def _rows(note: CommitNote) -> int:
    return note.rows_inserted + note.rows_deleted
