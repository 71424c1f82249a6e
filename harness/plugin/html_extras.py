"""What does pytest-html show of a check? Its outcome and numbers in one line, and a link to its place in our report.

pytest-html puts an extra into its page as it is, so everything is escaped here.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from markupsafe import Markup

from harness.report.model import Check
from harness.report.page import REPORT_NAME
from harness.report.words import clean, measures, slug


def html_extras(check: Check, config: pytest.Config, out: Path) -> list[dict[str, Any]]:
    """Return the extras of one check; none when no pytest-html report was asked for."""
    page = config.getoption("htmlpath", None)
    if not page:
        return []
    extras = importlib.import_module("pytest_html.extras")
    return [extras.html(str(_line(check, _link(check, Path(page), out))))]


def _line(check: Check, link: str) -> Markup:
    (low, high, observed), unit = measures([check.low, check.high, check.observed], check.unit)
    facts = [
        ("expected", check.expected),
        ("lowest", low if check.low is not None else ""),
        ("highest", high if check.high is not None else ""),
        ("observed", f"{observed} {unit}".strip() if check.observed is not None else ""),
        ("reason", check.reason),
    ]
    told = "; ".join(f"{name}: {value}" for name, value in facts if value)
    line = Markup('<p><strong>{}</strong> {} <a href="{}">in the gpu-exam report</a></p>')
    return line.format(check.outcome, clean(told), link)


def _link(check: Check, page: Path, out: Path) -> str:
    folder = Path(os.path.expandvars(page)).expanduser().absolute().parent
    anchor = slug(check.scenario, check.cause, check.workload, check.device)
    return f"{quote(os.path.relpath(out / REPORT_NAME, folder))}#{anchor}"
