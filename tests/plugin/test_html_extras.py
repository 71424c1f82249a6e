"""Does a report of pytest-html show our row of each check, and nothing of what somebody wrote as markup?"""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.conftest import MODES
from tests.plugin.folders import Ended, Exam
from tests.report.tree import Element, parse

CODE = """
MARKUP = "<img src=x onerror=alert(1)> & more"

@pytest.mark.parametrize("outcome", ["PASSED", "FAILED", "BLOCKED", "RECORDED"])
def test_judged(outcome, judge):
    judge(lambda: judgement(outcome, expected=MARKUP, low=0.0, high=1.0, unit="share", reason=MARKUP), "")

@pytest.mark.parametrize("name", ["<script>alert(2)</script>"])
def test_named(name, judge):
    judge(lambda: judgement("PASSED", observed=MARKUP), "")

@pytest.fixture
def broken():
    raise OSError(MARKUP)

def test_broken(broken):
    pass
"""

Write = Callable[..., Exam]


class _Data(HTMLParser):
    """Finds the data from which pytest-html's script builds its page."""

    def __init__(self) -> None:
        super().__init__()
        self.blob = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.blob = dict(attrs).get("data-jsonblob") or self.blob


def shown(page: Path) -> dict[str, dict[str, Any]]:
    """Return test name -> what pytest-html shows of it."""
    reader = _Data()
    reader.feed(page.read_text())
    return {key.rpartition("::test_")[2]: entry[0] for key, entry in json.loads(reader.blob)["tests"].items()}


def extra(entry: dict[str, Any]) -> Element:
    """Return our extra of an entry, as a browser reads it."""
    (found,) = entry["extras"]
    assert found["format_type"] == "html"
    return parse(found["content"])


@pytest.fixture(scope="module", params=["serial", "parallel"])
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A session that also writes a report of pytest-html."""
    exam = Exam.of(tmp_path_factory.mktemp(request.param) / "project", CODE)
    return exam.run("--html=html/x.html", "--self-contained-html", *MODES[request.param])


@pytest.fixture
def entries(ended: Ended) -> dict[str, dict[str, Any]]:
    """What pytest-html shows."""
    return shown(ended.folder.parent / "html" / "x.html")


@pytest.mark.parametrize("outcome", ["PASSED", "FAILED", "BLOCKED", "RECORDED"])
def test_each_check_has_its_row(entries: dict[str, dict[str, Any]], outcome: str) -> None:
    """Outcome, bounds, number and reason stand beside the test, also when a worker ran it."""
    text = extra(entries[f"judged[{outcome}]"]).text
    assert text.startswith(f"{outcome} expected: <img src=x onerror=alert(1)> & more; lowest: 0; highest: 1; ")
    assert "observed: 0.5000 share; reason: <img src=x" in text


def test_broken_check_has_its_row(entries: dict[str, dict[str, Any]]) -> None:
    """A check that broke before it began says why."""
    assert extra(entries["broken"]).text.startswith("ERROR reason: OSError: <img src=x onerror=alert(1)>")


def test_link_leads_to_the_section(ended: Ended, entries: dict[str, dict[str, Any]]) -> None:
    """The link is relative to the page of pytest-html, and its target exists."""
    (link,) = extra(entries["judged[PASSED]"]).all("a")
    path, _, anchor = link.attributes["href"].partition("#")
    assert (ended.folder.parent / "html" / path).resolve() == ended.folder / "report.html"
    assert parse(ended.page).by_id(anchor).tag == "h5"


def test_nothing_is_markup(entries: dict[str, dict[str, Any]]) -> None:
    """Extras and test ids go into the page as they are, so they hold no element but ours."""
    for entry in entries.values():
        assert {e.tag for e in extra(entry).walk()} == {"root", "p", "strong", "a"}
        cells = parse("".join(entry["resultsTableRow"]))
        assert {e.tag for e in cells.walk()} == {"root", "td"}


def test_no_extras_without_their_report(exam: Write) -> None:
    """Nobody asked for a report of pytest-html, so nothing is prepared for one."""
    code = CODE + "\n\ndef test_last(request):\n    assert request.config.getoption('htmlpath') is None\n"
    ended = exam(code).run("-k", "last or PASSED")
    assert (ended.status, ended.outcomes) == (0, {"test_judged[PASSED]": "PASSED", "test_last": "PASSED"})
