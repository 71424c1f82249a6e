"""How does a drawing become part of the page? As compact inline SVG with a title.

Text and colours are left to the page, so that its font and its dark mode apply.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from harness.report.marks import VARIABLES
from harness.report.words import clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOT_NEEDED = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_DECIMALS = re.compile(r"-?\d+\.\d{2,}")
_INVISIBLE = re.compile(r'<path d="[^"]*" style="fill: none"/>')
_TAG = re.compile(r"<[^<>]*>")
_UNUSED = re.compile(
    r" font-family: [^;\"]*;| clip-path=\"[^\"]*\"|<clipPath.*?</clipPath>| transform=\"rotate\(-?0 [^\"]*\"", re.DOTALL
)
"""The page has its own font; the plots let nothing outside their limits; most text is not turned."""

_ID = re.compile(r' id="([^"]*)"')
_EMPTY_GROUPS = re.compile(r"<g>\s*(<[^g/][^<>]*/>)\s*</g>")


def inline(figure: Figure, title: str, description: str, prefix: str) -> Markup:
    """Return the figure as an ``<svg>`` element; ``prefix`` makes its ids unique in the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    drawn = buffer.getvalue()
    body = drawn[drawn.index(">", drawn.index("<svg")) + 1 : drawn.rindex("</svg>")]
    width, height = figure.get_size_inches() * 72
    return Markup(
        '<svg class="plot" viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-labelledby="{2}-t {2}-d">'
        '<title id="{2}-t">{3}</title><desc id="{2}-d">{4}</desc>{5}</svg>'
    ).format(width, height, prefix, escape(clean(title)), escape(clean(description)), Markup(_compact(body, prefix)))


def _compact(body: str, prefix: str) -> str:
    """Drop what the page does not use, round to a tenth of a point, keep only ids that are referred to."""
    body = _NOT_NEEDED.sub("", body)
    body = _TAG.sub(lambda tag: _DECIMALS.sub(_rounded, tag[0]), body)
    body = _UNUSED.sub("", body).replace("\nL ", " ")
    used = set(re.findall(r'href="#([^"]+)"', body))
    names = {name: f"{prefix}-{count}" for count, name in enumerate(sorted(used))}
    body = _ID.sub(lambda found: f' id="{names[found[1]]}"' if found[1] in names else "", body)
    for name, short in names.items():
        body = body.replace(f"#{name}", f"#{short}")
    for stand_in, variable in VARIABLES.items():
        body = body.replace(stand_in, variable)
    body = _EMPTY_GROUPS.sub(r"\1", body.replace("xlink:href", "href"))
    body = _INVISIBLE.sub("", re.sub(r"\s+", " ", body).replace(' "', '"'))
    return body.replace("> <", "><").replace("<defs></defs>", "")


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")
