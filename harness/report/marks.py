"""How is a run told from the others, in colour and in black and white? By line and marker.

Its role sets colour and dashes, its place among the runs sets the marker and the letter.
"""

from __future__ import annotations

import math
from string import ascii_uppercase

from markupsafe import Markup

Polygon = list[tuple[float, float]]

INK = "#010101"
GRID = "#020202"

_ROLES: dict[str, tuple[str, tuple[float, ...]]] = {
    "reference": ("#030301", ()),
    "control": ("#030302", (5.0, 1.5)),
    "suspect": ("#030303", ()),
    "confirm": ("#030304", (4.0, 1.5, 1.0, 1.5)),
    "remedy": ("#030305", (2.5, 1.2)),
    "cheat": ("#030306", (1.0, 1.5)),
}
_OTHER = ("#030307", (1.0, 2.5))

VARIABLES = {
    INK: "currentColor",
    GRID: "var(--plot-grid)",
    **{stand_in: f"var(--plot-{role})" for role, (stand_in, _) in _ROLES.items()},
    _OTHER[0]: "var(--plot-other)",
}
"""Stand-in colour that the drawing library is given -> what the page's style sheet knows, so that dark mode works."""


def _ring(corners: int, turn: float = 0.0, inner: float = 1.0) -> Polygon:
    """Return a regular polygon of radius 1; every second corner at radius ``inner``."""
    angles = [math.tau * (index / corners) + turn for index in range(corners)]
    radii = [1.0 if index % 2 == 0 else inner for index in range(corners)]
    return [(r * math.cos(a), r * math.sin(a)) for r, a in zip(radii, angles, strict=True)]


MARKERS: list[Polygon] = [
    _ring(16),
    _ring(4, math.pi / 4),
    _ring(3, math.pi / 2),
    _ring(4),
    _ring(3, -math.pi / 2),
    _ring(10, math.pi / 2, 0.4),
    [(-1, -1), (1, -1), (-1, 1), (1, 1)],
    [(-1, -0.35), (1, -0.35), (1, 0.35), (-1, 0.35)],
    _ring(8, 0.0, 0.35),
    _ring(3, 0.0),
]


def colour(role: str) -> str:
    """Return the stand-in colour of a role."""
    return _ROLES.get(role, _OTHER)[0]


def dashes(role: str) -> tuple[float, ...]:
    """Return the dash pattern of a role in line widths; empty is a solid line."""
    return _ROLES.get(role, _OTHER)[1]


def marker(place: int) -> Polygon:
    """Return the marker of the run at ``place`` among its incident's runs."""
    return MARKERS[place % len(MARKERS)]


def key(place: int) -> str:
    """Return the letter under which a run appears in tables and plots."""
    return ascii_uppercase[place] if place < len(ascii_uppercase) else f"R{place + 1}"


def swatch(role: str, place: int) -> Markup:
    """Return the small line with its marker that stands beside a run's name."""
    paint = VARIABLES[colour(role)]
    pattern = " ".join(f"{1.8 * length:g}" for length in dashes(role))
    corners = " ".join(f"{20 + 4.5 * x:.1f},{7 - 4.5 * y:.1f}" for x, y in marker(place))
    return Markup(
        '<svg class="swatch" viewBox="0 0 40 14" aria-hidden="true"><path d="M1 7H39" fill="none" style="stroke:{0}"'
        ' stroke-width="1.8" stroke-dasharray="{1}"/><polygon points="{2}" style="fill:{0}"/></svg>'
    ).format(paint, pattern or "none", corners)
