"""What does the reader see? One self-contained HTML page.

No script, nothing fetched, and the same bytes for the same results.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.report.confusion import confusion
from harness.report.model import Results
from harness.report.outcomes import INVARIANTS, MEANING
from harness.report.store import encode, replace_file
from harness.report.summary import summarise
from harness.report.view import arrange
from harness.report.words import clean, flatten, number, show, soft

REPORT_NAME = "report.html"
RESULTS_NAME = "results.json"


def render(results: Results) -> str:
    """Return the page. Whatever a user named or wrote is escaped, and cannot hide or reorder the text around it."""
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            results=results,
            summary=summarise(results),
            scenarios=arrange(results),
            confusion=confusion(results),
            environment=flatten(results.environment) if results.environment else [],
            outcomes=MEANING,
            invariants=INVARIANTS,
            css=_style(),
        )
    )


def write_report(results: Results, folder: Path) -> Path:
    """Write ``results.json`` and ``report.html`` into ``folder`` and return the page's path.

    The results are safe before the page is drawn. Raises UsageError when the folder cannot be written.
    """
    replace_file(folder / RESULTS_NAME, encode(results))
    replace_file(folder / REPORT_NAME, render(results).encode("utf-8"))
    return folder / REPORT_NAME


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=show,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(clean=clean, number=number, soft=soft)
    return environment


@cache
def _style() -> Markup:
    return Markup(Path(__file__).with_name("page.css").read_text(encoding="utf-8"))
