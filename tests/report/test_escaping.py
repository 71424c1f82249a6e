"""Can what a user wrote change the page around it?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.diagnose.finding import Diagnosis, Evidence, Finding, Missing
from harness.observe.outcome import Gate, GateCheck
from harness.report.model import Incident, Results, RunView, Series
from harness.report.page import render
from tests.report.sample import check, sample
from tests.report.tree import parse

ATTACKS = {
    "script": "<script>alert(1)</script>",
    "attribute": "\"' onmouseover='alert(1)' x=\"",
    "closing tags": "</title></style></pre></code></td></table></details></section><h1>PASSED</h1>",
    "template": "{{ 7 * 7 }}{% raw %}",
    "comment": "<!-- ]]> --><![CDATA[",
    "entity": "&lt;b&gt;&#0;&copy",
    "formula": "$\\frac{1}{$ %s %(x)s {0}",
    "right to left": "\u202eDELIAF\u202c \u05e9\u05dc\u05d5\u05dd \u2067x",
    "control": "a\x00b\x08c\x1b[31mred\x1b[0m\x7f\x85\u200b\ufeff",
    "surrogate": "caf\udce9",
    "long": "x" * 5000,
    "underscore": "_",
    "unicode": "\u6a21\u578b \U0001f525",
    "newlines": "one\r\ntwo\rthree\u2028four",
}


def hostile(text: str) -> Results:
    """Return results in which every text is ``text``."""
    place = (text, text, text, text)
    finding = Finding(
        category=text,  # type: ignore[arg-type]
        cause=text,
        confidence=0.5,
        evidence=[Evidence(name=text, value=text, unit=text, threshold=text, source=text)],
        confirm=text,
        action=text,
        summary=text,
    )
    missing = Missing(observation=text, needed_for=text, command=text)
    status: Any = text
    diagnosis = Diagnosis(status=status, findings=[finding], missing=[missing], checked=[text])
    curve: Series = [(0, 1.0), (1, 2.0)]
    run = RunView(
        role=text,
        label=text,
        command=text,
        state=text,
        precision=text,
        device=text,
        metric_name=text,
        unit=text,
        val_metric=0.5,
        throughput=1.0,
        loss=curve,
        val=curve,
        loss_scale=curve,
    )
    reference = msgspec.structs.replace(run, role="reference", command=text + "2")
    return sample(
        trust=text,
        command=text,
        started=text,
        ended=text,
        environment={text: text, "nested": {text: [text]}},
        gate=Gate(
            outcome="PASSED",
            checks=[GateCheck(name=text, outcome="PASSED", observed=text, expected=text, remedy=text)],
        ),
        checks=[check(place, text, "FAILED", title=text, reason=text, expected=text, observed=text, unit=text)],
        incidents=[
            Incident(
                scenario=text,
                cause=text,
                category=text,
                workload=text,
                device=text,
                title=text,
                story=text,
                runs=[reference, run],
                diagnosis=diagnosis,
            )
        ],
        confusion={text: {text: 1}},
        evidence_head=text,
    )


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS.keys())
def test_escaping_leaves_the_structure_as_it_was(text: str) -> None:
    """The same elements in the same order as for a harmless text, apart from soft line breaks."""
    harmless = [e.tag for e in parse(render(hostile("word"))).walk() if e.tag != "wbr"]
    attacked = [e.tag for e in parse(render(hostile(text))).walk() if e.tag != "wbr"]
    assert attacked == harmless


@pytest.mark.parametrize("name", ["script", "attribute", "closing tags", "template", "entity", "unicode"])
def test_escaping_shows_the_text_as_it_was_written(name: str) -> None:
    """A reader sees the exact text, and no attribute was added."""
    page = parse(render(hostile(ATTACKS[name])))
    assert {e.raw_text for e in page.all("pre")} == {ATTACKS[name], ATTACKS[name] + "2"}
    assert not [e for e in page.walk() if any(key.startswith("on") for key in e.attributes)]


@pytest.mark.parametrize("name", ["right to left", "control", "surrogate"])
def test_escaping_spells_out_what_is_invisible(name: str) -> None:
    """No character reverses, hides or breaks the text around it, and the page is valid UTF-8."""
    page = render(hostile(ATTACKS[name]))
    page.encode("utf-8")
    assert not set(page) & set("\x00\x08\x1b\x7f\x85\u200b\ufeff\u202e\u202c\u2067\udce9")


def test_escaping_spells_characters_as_python_does() -> None:
    """The reader can tell which character it was."""
    page = parse(render(hostile("a\u202eb\x00")))
    assert page.all("pre")[0].raw_text == "a\\u202eb\\x002"


def test_escaping_lets_a_very_long_word_break() -> None:
    """A word without spaces offers a break at least every forty characters in table cells."""
    page = render(hostile("y" * 5000))
    cells = parse(page).all("td", "user")
    assert cells
    assert all(len(part) <= 40 for e in cells for part in e.children if isinstance(part, str))
