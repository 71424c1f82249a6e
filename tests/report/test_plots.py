"""Do the plots show what the runs did, in few bytes?"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.report import marks, plots
from harness.report.model import RunView, Series
from harness.report.plots import UNTIMED, Canvas, Plot, draw_all
from tests.report.incidents import buckets_incident, decay, run, scaling_incident, scheduler_incident
from tests.report.tree import parse


def draw(*runs: RunView) -> dict[str, Plot]:
    """Return the plots of some runs, by title."""
    return {plot.title: plot for plot in draw_all(Canvas(runs, "cpu", "p"))}


def test_plots_of_an_incident_with_series_and_scale() -> None:
    """Loss, metric, speed and, because a run has a loss scale, the loss scale."""
    titles = list(draw(*scheduler_incident().runs))
    assert titles == ["Training loss", "Validation metric", "Speed against quality", "Loss scale"]


def test_plots_without_series_show_speed_only() -> None:
    """Nothing is drawn of which there are no numbers."""
    assert list(draw(*buckets_incident().runs)) == ["Speed against quality"]


@pytest.mark.parametrize("is_timed", [True, False])
def test_times_that_are_no_timings_say_so(is_timed: bool) -> None:
    """Runs side by side on shared cores give a rough speed, and the plot tells."""
    runs = [msgspec.structs.replace(run, is_timed=is_timed) for run in buckets_incident().runs]
    plot = draw(*runs)["Speed against quality"]
    assert (UNTIMED in plot.caption) == (not is_timed)


ALONE = run("suspect", "a", "fp16", 0.5, 10.0)
WITHOUT_NUMBERS = run("reference", "a", "fp32", None, None)


@pytest.mark.parametrize("runs", [(), (ALONE,), (WITHOUT_NUMBERS,), (WITHOUT_NUMBERS, ALONE)])
def test_plots_of_nothing_to_compare(runs: tuple[RunView, ...]) -> None:
    """No runs, no reference, or no numbers: no plot."""
    assert draw(*runs) == {}


def test_plots_name_kind_axes_and_runs() -> None:
    """Each drawing says what it shows without the page around it, also to a screen reader."""
    svg = parse(draw(*scaling_incident().runs)["Training loss"].svg)
    assert svg.all("title")[0].text == "Training loss, device kind cpu"
    assert "C suspect fp16, as reported: " in svg.all("desc")[0].text
    texts = [e.text for e in svg.all("text")]
    assert {"step", "training loss", "device kind: cpu"} <= set(texts)


def test_plots_say_which_way_is_better() -> None:
    """The metric's axis has its name and its direction."""
    svg = parse(draw(*buckets_incident().runs)["Speed against quality"].svg)
    assert "loss (lower is better)" in [e.text for e in svg.all("text")]


def test_plots_tell_runs_apart_without_colour() -> None:
    """Two runs of one incident never share both dashes and marker."""
    roles = ["reference", "control", "suspect", "confirm", "remedy", "cheat"]
    styles = {(marks.dashes(role), tuple(marks.marker(place))) for place, role in enumerate(roles)}
    assert len(styles) == len(roles)


def test_plots_take_their_colours_from_the_page() -> None:
    """No fixed colour is left, so that dark mode applies."""
    svg = "".join(plot.svg for plot in draw(*scheduler_incident().runs).values())
    assert not re.search(r"#[0-9a-f]{6}", svg)
    assert "var(--plot-suspect)" in svg


def test_plots_mark_the_last_finite_value() -> None:
    """A gap is a gap, with a cross before it and a sentence that says so."""
    plot = draw(run("suspect", "a", "fp16", None, None, loss=[(0, 2.0), (1, 1.0), (2, None), (3, 1.5), (4, 1.4)]))
    assert "A cross marks the last finite value" in plot["Training loss"].caption
    assert "A suspect a: 1.4 at step 4" in plot["Training loss"].svg


def test_plots_name_a_run_without_any_finite_value() -> None:
    """A run that cannot be drawn is named under the plot."""
    reference = run("reference", "a", "fp32", None, None, loss=[(0, 1.0)])
    plot = draw(reference, run("suspect", "b", "fp16", None, None, loss=[(0, None)]))
    assert "Without any finite value: B." in plot["Training loss"].caption


@pytest.mark.parametrize("value", [0.0, 1e-300, 1e29, 1e300, -5.0, math.inf, math.nan])
def test_plots_survive_any_value(value: float) -> None:
    """No number that a broken training can produce breaks the drawing."""
    series: Series = [(0, 1.0), (1, value), (2, 2.0)]
    broken = run("suspect", "b", "fp16", value, value, loss=series, val=series, loss_scale=series, skipped_steps=[1])
    assert "Training loss" in draw(run("reference", "a", "fp32", 0.9, 10.0), broken)


def test_plots_of_long_runs_stay_small() -> None:
    """A hundred thousand noisy steps cost no more than a few thousand bytes."""
    plot = draw(run("reference", "a", "fp32", 0.9, 10.0, loss=decay(2.0, 0.1, 9000, 1, 100_000)))
    assert len(plot["Training loss"].svg) < 12_000


def test_plots_import_matplotlib_only_to_draw() -> None:
    """Importing the report is instant; a third of a second is paid by who draws."""
    code = "import sys, harness.report.page; sys.exit('matplotlib' in sys.modules)"
    root = Path(plots.__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_plots_share_a_label_between_close_dots() -> None:
    """Letters that would be printed over each other stand side by side."""
    texts = [e.text for e in parse(draw(*scaling_incident().runs)["Speed against quality"].svg).all("text")]
    assert "B D E" in texts
    assert "C" in texts


def test_plots_compare_only_equal_units_and_metrics() -> None:
    """Tokens per second are not divided by samples per second."""
    reference = run("reference", "a", "fp32", 0.9, 10.0)
    assert draw(reference, run("suspect", "b", "fp16", 0.8, 20.0, unit="tokens/s")) == {}
    assert draw(reference, run("suspect", "b", "fp16", 0.8, 20.0, metric_name="f1")) == {}
