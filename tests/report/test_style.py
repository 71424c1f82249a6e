"""Can the page be read: by weak eyes, in the dark, on paper?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.report import page
from harness.report.marks import VARIABLES
from harness.report.outcomes import MEANING

CSS = Path(page.__file__).with_name("page.css").read_text(encoding="utf-8")
BLOCKS = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
LIGHT, DARK = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in BLOCKS)
TEXT = ["fg", "quiet", "link", *(name.lower() for name in MEANING)]
LINES = sorted(name for name in LIGHT if name.startswith("plot-") and name != "plot-grid")


def luminance(colour: str) -> float:
    """Return the relative luminance; source: WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio, 1 to 21; source: WCAG 2.2."""
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("ground", ["bg", "panel"])
def test_style_text_has_contrast(theme: dict[str, str], name: str, ground: str) -> None:
    """Text needs 4.5 : 1 (WCAG 2.2, 1.4.3)."""
    assert contrast(theme[name], theme[ground]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", LINES)
def test_style_plot_lines_have_contrast(theme: dict[str, str], name: str) -> None:
    """Graphics need 3 : 1 (WCAG 2.2, 1.4.11)."""
    assert contrast(theme[name], theme["bg"]) >= 3


def test_style_knows_each_colour_that_the_plots_ask_for() -> None:
    """No line is drawn in a colour that the style sheet lacks."""
    asked = set(re.findall(r"--([\w-]+)", " ".join(VARIABLES.values())))
    assert asked <= set(LIGHT)
    assert set(LIGHT) == set(DARK)


def test_style_unfolds_everything_on_paper() -> None:
    """A printed page has no folds."""
    paper = CSS[CSS.index("@media print") :]
    assert "details::details-content" in paper
    assert "break-inside: avoid" in paper
