"""The tables that the benchmark prints."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.choice import is_right
from benchmarks.tpcdi.variants import REBUILDS, VariantRun

REASON = 70  # characters
WAYS = ("always", "never", "ours")


def totals(runs: Sequence[VariantRun]) -> Iterator[str]:
    """For each step and variant the sum of the models' seconds, and its ratio to the rebuild's."""
    yield f"{'step':<10}{'variant':<13}{'seconds':>9}{'ratio':>8}{'wall':>9}  ways"
    for run in runs:
        base = rebuild_of(runs, run.step)
        ratio = f"{run.seconds / base.seconds:>8.2f}" if base else f"{'':>8}"
        yield f"{run.step:<10}{run.variant:<13}{run.seconds:>9.2f}{ratio}{run.wall:>9.2f}  {run.ways()}"


def slowest(runs: Sequence[VariantRun], count: int) -> Iterator[str]:
    """For each step and maintained variant its slowest models, and those of which the ratio to the
    rebuild is the worst stand out by it.
    """
    for run in runs:
        base = rebuild_of(runs, run.step)
        if run.variant in REBUILDS:
            continue
        yield f"\n{run.step}, {run.variant}:"
        head = f"{'model':<27}{'way':<12}{'seconds':>8}{'rebuilt':>8}{'ratio':>7}{'+':>9}{'-':>9}"
        yield f"{head}  steps; reason"
        for each in sorted(run.models.values(), key=lambda each: -each.seconds)[:count]:
            rebuilt = base.models[each.model].seconds if base else float("nan")
            steps = " ".join(f"{name} {took:.1f}" for name, took in each.steps.items() if took >= 0.05)
            reason = f"; {each.reason[:REASON]}" if each.reason else ""
            yield (
                f"{each.model:<27}{each.way:<12}{each.seconds:>8.2f}{rebuilt:>8.2f}"
                f"{each.seconds / rebuilt:>7.2f}{each.inserted:>9}{each.deleted:>9}  {steps}{reason}"
            )


def choices(runs: Sequence[VariantRun]) -> Iterator[str]:
    """For each change and each model that can be incremental after it: seconds from the changes, of
    evaluating the query, and with `auto`, whose last way is judged. A way's seconds are the median
    of all runs that took it, those of `auto` among them. Of the steps of one name the first does
    not count if there are more.
    """
    wrong = total = 0
    yield f"{'step':<10}{'model':<27}{'always':>8}{'never':>8}{'auto':>8}  auto was"
    for step in dict.fromkeys(run.step for run in runs):
        ways = {way: [run for run in runs if (run.step, run.variant) == (step, way)] for way in WAYS}
        counted = {way: of_way[1:] or of_way for way, of_way in ways.items()}
        for model, last in counted["ours"][-1].models.items():
            if counted["always"][-1].models[model].way != "incremental":
                continue  # nothing changed, or there is no choice
            ran = [run.models[model] for way in WAYS for run in counted[way]]
            auto = statistics.median(run.models[model].seconds for run in counted["ours"])
            always, never = (
                statistics.median(each.seconds for each in ran if each.way == way)
                for way in ("incremental", "evaluated")
            )
            incremental = last.way == "incremental"
            right = is_right(always, never) if incremental else is_right(never, always)
            total, wrong = total + 1, wrong + (not right)
            was = f"{'right' if right else 'wrong'}: {last.way} {last.reason[:REASON]}"
            yield f"{step:<10}{model:<27}{always:>8.2f}{never:>8.2f}{auto:>8.2f}  {was}"
    yield f"right: {total - wrong} of {total}"


def rebuild_of(runs: Sequence[VariantRun], step: str) -> VariantRun | None:
    """The rebuild that the others of ``step`` are compared with: Delta's, else Parquet's."""
    for variant in REBUILDS:
        for run in runs:
            if (run.step, run.variant) == (step, variant):
                return run
    return None
