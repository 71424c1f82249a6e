"""What do the runs look like side by side? Loss and metric over steps, speed against quality, the loss scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from harness.report import marks
from harness.report.model import RunView, Series
from harness.report.series import LARGEST, drawable, ending, last_before_gaps, thin, values
from harness.report.svg import inline
from harness.report.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (4.4, 2.7)
"""Inches: about 320 x 195 CSS pixels, which a phone shows at its own size."""

_AREA = (0.17, 0.17, 0.80, 0.73)
"""Left, bottom, width, height of the axes: room for tick labels of eight characters."""

_LONGEST_LABEL = 40
"""Characters that fit along an axis."""

_POWERS_OF_TWO = 2

LOG_RATIO = 100.0
"""Highest / lowest above which an axis is logarithmic: on a linear one everything below 1 % lies on the axis itself."""

SETTINGS = {
    "svg.hashsalt": "gpu-exam",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9.0,
    "axes.unicode_minus": False,
    "axes.edgecolor": marks.INK,
    "axes.labelcolor": marks.INK,
    "axes.linewidth": 0.6,
    "text.color": marks.INK,
    "xtick.color": marks.INK,
    "ytick.color": marks.INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": marks.GRID,
    "grid.linewidth": 0.5,
}
"""Fixed salt and no date: the same numbers give the same bytes. Text stays text and is never read as a formula."""


@dataclass(frozen=True)
class Plot:
    """One drawing and the sentence under it."""

    title: str
    caption: str
    svg: Markup


@dataclass(frozen=True)
class Canvas:
    """What all plots of one incident share: its runs, the device kind that every figure names, an id prefix."""

    runs: Sequence[RunView]
    kind: str
    prefix: str


def draw_all(canvas: Canvas) -> list[Plot]:
    """Return the plots for which the runs hold numbers, in reading order."""
    if not canvas.runs:
        return []
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):  # type: ignore[arg-type]
        drawn = [draw(canvas) for draw in (_loss, _validation, _speed_against_quality, _loss_scale)]
    return [plot for plot in drawn if plot is not None]


def _loss(canvas: Canvas) -> Plot | None:
    return _over_steps(canvas, "Training loss", "training loss", lambda run: run.loss)


def _validation(canvas: Canvas) -> Plot | None:
    return _over_steps(canvas, "Validation metric", _metric_label(canvas.runs), lambda run: run.val)


def _over_steps(canvas: Canvas, title: str, label: str, of: Callable[[RunView], Series]) -> Plot | None:
    series = {place: points for place, run in enumerate(canvas.runs) if (points := thin(of(run)))}
    drawn = {place: points for place, points in series.items() if values(points)}
    if not drawn:
        return None
    figure, axes = _axes(canvas, "step", label)
    for place, points in drawn.items():
        _line(axes, canvas.runs[place].role, place, points)
    _choose_scale(axes, [value for points in drawn.values() for value in values(points)])
    ends = "; ".join(f"{_name(canvas, place)}: {ending(points)}" for place, points in series.items())
    return _finish(canvas, figure, title, f"{title} over steps. {ends}.", _gap_note(series))


def _loss_scale(canvas: Canvas) -> Plot | None:
    """Draw the loss scale in powers of two, with a cross at each step that the scaler skipped."""
    series = {place: thin(_positive(run.loss_scale)) for place, run in enumerate(canvas.runs)}
    drawn = {place: points for place, points in series.items() if values(points)}
    if not drawn:
        return None
    figure, axes = _axes(canvas, "step", "loss scale")
    for place, points in drawn.items():
        _line(axes, canvas.runs[place].role, place, points)
        skipped = _at_steps(points, canvas.runs[place].skipped_steps)
        _crosses(axes, marks.colour(canvas.runs[place].role), skipped)
    _logarithmic(axes, base=_POWERS_OF_TWO)
    counts = "; ".join(f"{_name(canvas, place)}: {len(canvas.runs[place].skipped_steps)} skipped" for place in drawn)
    note = "A cross marks a step that the scaler skipped."
    return _finish(canvas, figure, "Loss scale", f"Loss scale over steps. {counts}.", note)


def _positive(series: Series) -> Series:
    """Return the series with a gap at each value that a logarithmic axis cannot show."""
    return [(step, value if value is not None and value > 1 / LARGEST else None) for step, value in series]


def _at_steps(points: Series, steps: list[int]) -> list[tuple[int, float]]:
    """Return at most 200 of the steps, each with the last value that was known there."""
    thinned = sorted(steps)[:: max(1, math.ceil(len(steps) / 200))]
    known = [(step, value) for step, value in points if value is not None]
    return [(step, max((p for p in known if p[0] <= step), default=known[0])[1]) for step in thinned]


UNTIMED = "Other runs used the machine at the same time: a speed is measured by gpu-exam compare."
"""What a reader must know of times that are no timings."""


def _speed_against_quality(canvas: Canvas) -> Plot | None:
    reference = next((run for run in canvas.runs if run.role == "reference"), None)
    dots = {} if reference is None else _ratios(canvas.runs, reference)
    if len(dots) <= 1:
        return None
    figure, axes = _axes(canvas, "throughput / reference throughput", _metric_label(canvas.runs))
    for place, (speed, metric) in dots.items():
        role = canvas.runs[place].role
        axes.plot([speed], [metric], marker=marks.marker(place), color=marks.colour(role), markersize=8, clip_on=False)
    for place, names in _labels(dots).items():
        axes.annotate(names, dots[place], (6, 4), textcoords="offset points")
    axes.margins(0.15)
    axes.axvline(1.0, color=marks.INK, linewidth=0.6, linestyle=(0, (3, 3)))
    text = "; ".join(f"{_name(canvas, p)}: {number(x)} times, metric {number(y)}" for p, (x, y) in dots.items())
    note = "The dashed line is the speed of the reference."
    if not all(run.is_timed for run in canvas.runs):
        note += f" {UNTIMED}"
    return _finish(canvas, figure, "Speed against quality", f"Speed against quality. {text}.", note)


def _ratios(runs: Sequence[RunView], reference: RunView) -> dict[int, tuple[float, float]]:
    """Return (throughput ratio, metric) of each run that has both, in the reference's unit and metric."""
    base = drawable(reference.throughput)
    dots = {}
    for place, run in enumerate(runs):
        speed, metric = drawable(run.throughput), drawable(run.val_metric)
        if base and speed and metric is not None and _same_scale(run, reference):
            dots[place] = (speed / base, metric)
    return dots


def _labels(dots: dict[int, tuple[float, float]]) -> dict[int, str]:
    """Return the letters at each dot; dots so close that their letters would overlap share one label."""
    width, height = (max(side) - min(side) or 1.0 for side in zip(*dots.values(), strict=True))
    groups: dict[int, list[int]] = {}
    for place, (x, y) in dots.items():
        near = (p for p in groups if abs(x - dots[p][0]) < 0.06 * width and abs(y - dots[p][1]) < 0.08 * height)
        groups.setdefault(next(near, place), []).append(place)
    return {first: " ".join(marks.key(place) for place in places) for first, places in groups.items()}


def _same_scale(run: RunView, reference: RunView) -> bool:
    return (run.unit, run.metric_name) == (reference.unit, reference.metric_name)


def _axes(canvas: Canvas, x_label: str, y_label: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, facecolor="none")
    axes = figure.add_axes(_AREA, facecolor="none")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.locator_params(axis="x", nbins=6)
    axes.tick_params(which="both", bottom=False, left=False)
    figure.text(0.97, 0.935, f"device kind: {_plain(canvas.kind, 'see title')}", ha="right", fontsize=8)
    return figure, axes


def _line(axes: Axes, role: str, place: int, points: Series) -> None:
    """Draw one run; its markers start at its own offset, so that lines on top of each other stay countable."""
    every = max(1, len(points) // 8)
    style = (0.0, marks.dashes(role)) if marks.dashes(role) else "solid"
    axes.plot(
        [step for step, _ in points],
        [math.nan if value is None else value for _, value in points],
        color=marks.colour(role),
        linestyle=style,
        linewidth=1.4,
        marker=marks.marker(place),
        markersize=5,
        markevery=(place * max(1, every // 4) % len(points), every),
        clip_on=False,
    )
    _crosses(axes, marks.colour(role), last_before_gaps(points))


def _crosses(axes: Axes, colour: str, points: list[tuple[int, float]]) -> None:
    if points:
        steps, heights = zip(*points, strict=True)
        axes.plot(steps, heights, "x", color=colour, markersize=8, markeredgewidth=1.8, clip_on=False)


def _choose_scale(axes: Axes, heights: list[float]) -> None:
    if min(heights) > 1 / LARGEST and max(heights) / min(heights) > LOG_RATIO:
        _logarithmic(axes, base=10)


def _logarithmic(axes: Axes, base: int) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    def label(value: float, _: int | None) -> str:
        return f"2^{round(math.log2(value))}" if base == _POWERS_OF_TWO else number(float(value), 2)

    axes.set_yscale("log", base=base)
    axes.yaxis.set_major_formatter(FuncFormatter(label))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _finish(canvas: Canvas, figure: Figure, title: str, description: str, note: str) -> Plot:
    svg = inline(figure, f"{title}, device kind {canvas.kind}", description, f"{canvas.prefix}-{title[:2].lower()}")
    return Plot(title, note, svg)


def _gap_note(series: dict[int, Series]) -> str:
    empty = [marks.key(place) for place, points in series.items() if not values(points)]
    gaps = any(value is None for points in series.values() for _, value in points)
    lost = f"Without any finite value: {', '.join(empty)}." if empty else ""
    cross = "A cross marks the last finite value before one that is not finite." if gaps else ""
    return f"{cross} {lost}".strip()


def _metric_label(runs: Sequence[RunView]) -> str:
    first = next((run for run in runs if run.val_metric is not None or run.val), runs[0])
    goal = "higher" if first.metric_goal == "max" else "lower"
    return f"{_plain(first.metric_name, 'validation metric')} ({goal} is better)"


def _plain(text: str, otherwise: str) -> str:
    """Return text that any font can draw; whatever else a user named it is in the tables."""
    return text if text.isascii() and text.isprintable() and 0 < len(text) <= _LONGEST_LABEL else otherwise


def _name(canvas: Canvas, place: int) -> str:
    return f"{marks.key(place)} {canvas.runs[place].role} {canvas.runs[place].label}"
