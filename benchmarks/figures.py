"""Figures of benchmarks, a line of JSON each, and their charts:

python -m benchmarks.figures docs/figures/wide_join.jsonl docs/figures/wide_join.png
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

VIEW, DELTA_MERGE, KNOWN_CHANGES = "self_correcting_mv", "Delta MERGE", "incremental, merge of known changes"
NOTHING = 0.0001  # where a logarithmic axis shows a share of zero


@dataclass(frozen=True)
class Figure:
    """Median ``seconds`` of ``rounds``; ``reference``: of the rebuilds that alternated with them.

    ``share`` of the rows changed before each; None for a first load. ``scale`` is TPC-H's: 1 is 6
    million lines.
    """

    workload: str
    way: str
    share: float | None
    scale: float
    seconds: float
    reference: float
    rounds: int

    @property
    def ratio(self) -> float:
        """1 is the cost of the rebuild."""
        return self.seconds / self.reference

    def append_to(self, file: Path) -> None:
        """Add a line."""
        with file.open("a") as lines:
            lines.write(json.dumps({**asdict(self), "ratio": round(self.ratio, 3)}) + "\n")


def read(file: Path) -> Iterator[Figure]:
    """The figures of a file."""
    for line in file.read_text().splitlines():
        fields = json.loads(line)
        del fields["ratio"]
        yield Figure(**fields)


def chart(figures: Sequence[Figure], picture: Path) -> None:
    """Ratios against the share of rows that changed, a line for each workload and way; if only the
    scale varies, against the number of lines. If no figure has a share, a bar for each.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = [figure for figure in figures if figure.share is not None]
    if not measured:
        return _bars(figures, picture)
    by_scale = len({figure.scale for figure in measured}) > 1
    drawing, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")

    def line(figure: Figure) -> str:
        return (
            figure.way
            if len({each.workload for each in measured}) == 1
            else f"{figure.workload}: {figure.way}"
        )

    for label, group in groupby(sorted(measured, key=line), key=line):
        points = sorted((_place(figure, by_scale), figure.ratio) for figure in group)
        axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.axhline(1, color="black", linewidth=0.8, linestyle="--", label="rebuild as a table")
    axes.set(xscale="log", yscale="log", ylabel="time, 1 = rebuild")
    _label(axes, measured, by_scale)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize="small")
    drawing.savefig(picture, dpi=120)


def _bars(figures: Sequence[Figure], picture: Path) -> None:
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(figsize=(8, 0.35 * len(figures) + 1), layout="constrained")
    labels = [f"{figure.workload}: {figure.way}" for figure in figures]
    bars = axes.barh(labels, [figure.ratio for figure in figures])
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.axvline(1, color="black", linewidth=0.8, linestyle="--")
    axes.invert_yaxis()
    axes.set(xlabel="time, 1 = the other side", xlim=(0, 1.1 * max(figure.ratio for figure in figures)))
    drawing.savefig(picture, dpi=120)


def _place(figure: Figure, by_scale: bool) -> float:
    return figure.scale * 6_000_000 if by_scale else max(figure.share or 0.0, NOTHING)


def _label(axes: Any, measured: Sequence[Figure], by_scale: bool) -> None:
    if by_scale:
        lines = sorted({_place(figure, by_scale) for figure in measured})
        axes.set_xticks(lines, labels=[f"{each / 1_000_000:.0f} M" for each in lines])
        axes.set_xlabel("lines")
    else:
        shares = sorted({figure.share or 0.0 for figure in measured})
        names = [f"{100 * share:.4g} %" if share else "nothing" for share in shares]
        axes.set_xticks([max(share, NOTHING) for share in shares], labels=names)
        axes.set_xlabel("rows that changed")
    ratios = [figure.ratio for figure in measured]
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10) if min(ratios) / 2 <= tick <= max(ratios) * 2]
    axes.set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def main() -> None:
    """Draw the figures of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("figures", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    chart(list(read(arguments.figures)), arguments.picture)


if __name__ == "__main__":
    main()
