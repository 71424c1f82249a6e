"""What is on the page, for whom, and in which order?"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from harness.observe.outcome import Gate
from harness.report.model import Results
from harness.report.outcomes import INVARIANTS, MEANING
from harness.report.page import render, write_report
from tests.report.incidents import SCHEDULER, scheduler_incident
from tests.report.sample import check, empty, sample
from tests.report.tree import Element, parse

HEADING = re.compile(r"h[1-6]")


@pytest.fixture(scope="module")
def page() -> Element:
    """Return the sample, drawn once."""
    return parse(render(sample()))


def facts(page: Element) -> dict[str, str]:
    """Return the name -> value list of the head."""
    (rows,) = page.all("dl", "facts")
    return dict(zip((e.text for e in rows.all("dt")), (e.text for e in rows.all("dd")), strict=True))


def test_page_sections_are_in_reading_order(page: Element) -> None:
    """Head, matrix, scenarios, confusion matrix, gate, environment."""
    titles = [e.text for e in page.all("h2")]
    assert titles == ["Scenario by cause", "Scenarios", "Confusion matrix", "Integrity gate", "Environment"]


def test_page_headings_skip_no_level(page: Element) -> None:
    """A screen reader's outline has one top and no holes."""
    levels = [int(e.tag[1]) for e in page.walk() if HEADING.fullmatch(e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_page_is_self_contained(page: Element) -> None:
    """Nothing runs, nothing is fetched, and every link leads to a place in the page."""
    assert not page.all("script")
    assert not page.all("link")
    links = [e.attributes["href"] for e in page.walk() if "href" in e.attributes]
    assert links
    assert all(page.by_id(link.removeprefix("#")) for link in links)
    assert not [e for e in page.walk() if any(key == "src" or key.startswith("on") for key in e.attributes)]


def test_page_ids_are_unique(page: Element) -> None:
    """A link has one target, also among the ids that the plots use."""
    ids = [e.attributes["id"] for e in page.walk() if "id" in e.attributes]
    assert len(ids) == len(set(ids))


def test_page_table_headers_say_what_they_head(page: Element) -> None:
    """Each header cell has a scope, and each table has a header row."""
    assert all(e.attributes.get("scope") in {"col", "row"} for e in page.all("th"))
    assert all(table.all("thead") for table in page.all("table"))


def test_page_head_states_the_facts(page: Element) -> None:
    """What ran, on what, how much of it, how far to trust it, and how to verify it."""
    found = facts(page)
    assert found["What was run"] == "pytest scenarios/ --device cpu --out reports/2026-03-02"
    assert "AMD EPYC 9654" in found["On what"]
    assert found["Checks executed"] == "12 of 15 planned; on a GPU 0 of 5"
    assert found["Time"].endswith("(7 min 42 s)")
    assert found["Trust"] == "SELF-RUN produced by the person who ran it, not proctored."
    assert "9f2b5c0e7d41" in found["Evidence"]
    assert "gpu-exam verify ." in found["Evidence"]


def test_page_names_device_kinds_and_what_they_prove(page: Element) -> None:
    """Nobody can take host cores for a GPU."""
    (kinds,) = page.all("ul", "kinds")
    assert [e.text for e in kinds.all("li")] == [
        "cpu real numerics on host cores, no GPU evidence",
        "emulated accelerators paced on host cores: shows the method, no GPU evidence",
    ]


@pytest.mark.parametrize("outcome", MEANING)
def test_page_explains_and_counts_each_outcome(page: Element, outcome: str) -> None:
    """Each of the eight words is in the head's counts, in the legend and in a row, beside its own mark."""
    (head,) = page.all("header")
    assert any(e.text.endswith(outcome) for e in head.all("span", "count"))
    assert outcome in [e.text for e in page.all("dl", "legend")[0].all("dt")]
    rows = [e for e in page.all("td") if e.attributes.get("data-label") == "Outcome" and e.text == outcome]
    assert rows
    assert all(use.attributes["href"] == f"#m-{outcome.lower()}" for row in rows for use in row.all("use"))


def test_page_matrix_cell_reads_without_colour(page: Element) -> None:
    """A cell's text alternative names all five invariants with their outcomes, and leads to the section."""
    (row,) = [e for e in page.section("matrix").all("tr") if e.text.startswith(SCHEDULER[1])]
    (link,) = row.all("a")
    outcomes = "control PASSED, symptom FAILED, diagnosis ERROR, confirm BLOCKED, remedy TIMEOUT"
    assert link.text == outcomes
    assert page.by_id(link.attributes["href"].removeprefix("#")).tag == "h5"


def test_page_opens_what_failed_and_folds_what_passed(page: Element) -> None:
    """The reader starts at what needs him."""
    state = {e.all("h4")[0].text.split()[0]: "open" in e.attributes for e in page.all("details", "cause")}
    assert state == {
        "no_loss_scaling": False,
        "scheduler_on_skipped_step": True,
        "small_buckets": False,
        "graph_retained": False,
    }


def test_page_link_target_lies_inside_its_fold(page: Element) -> None:
    """A browser unfolds the ancestors of a link's target, so the target may not be the fold itself."""
    for link in page.section("matrix").all("a"):
        target: Element | None = page.by_id(link.attributes["href"].removeprefix("#"))
        ancestors = []
        while target is not None:
            ancestors.append(target.tag)
            target = target.parent
        assert ancestors[0] != "details"
        assert ancestors.count("details") == 2


def test_page_check_row_shows_bounds_and_observed(page: Element) -> None:
    """A value just outside its bound is seen to be outside."""
    (row,) = [e for e in page.all("tr") if e.text.startswith("symptom") and "0.049996" in e.text]
    cells = {e.attributes["data-label"]: e.text for e in row.all("td")}
    assert cells["Asserted"] == "the declared observation moves beyond noise (evidence record 10)"
    assert cells["Lowest"] == "0.050000"
    assert cells["Observed"] == "0.049996"
    assert cells["Reason"] == "just below the declared 0.05"


def test_page_shows_finding_with_its_evidence(page: Element) -> None:
    """What was found, which number decided it, against which threshold, and what to do."""
    (finding,) = page.all("div", "finding")
    assert "no_loss_scaling precision, confidence 0.93" in finding.text
    assert "zero_grad_excess 0.7031 share > 0.30 runs/suspect/rank0.jsonl" in finding.text
    assert "Confirm Run the same spec" in finding.text
    assert "Action Use torch.amp.GradScaler" in finding.text


def test_page_says_which_evidence_is_missing(page: Element) -> None:
    """Not enough evidence comes with the command that would produce it."""
    (table,) = [e for e in page.all("table") if e.text.startswith("Evidence that is missing")]
    assert "scheduler_steps scheduler_on_skipped_step python train.py" in table.text


def test_page_run_numbers_have_readable_units(page: Element) -> None:
    """Seconds become milliseconds, bytes become MiB."""
    row = next(e for e in page.all("tr") if e.text.startswith("A reference fp32 baseline"))
    assert "20.58 ms" in row.text
    assert "392.9 MiB" in row.text


def test_page_commands_copy_cleanly(page: Element) -> None:
    """A code block holds the command and nothing else: no prompt, no white space, no soft break."""
    commands = [e.raw_text for e in page.all("pre")]
    assert "python train.py --workload digits_cnn --seed 42 --max-steps 400 --device cpu --precision fp32" in commands
    assert not [e for e in page.all("pre") if e.all("wbr")]


def test_page_confusion_matrix_marks_right_and_wrong(page: Element) -> None:
    """Right answers lie on the diagonal, and a wrong one is named in words too."""
    section = page.section("confusion")
    assert "14 of 16 runs were diagnosed as what they are; 0 of 6 healthy runs got a finding." in section.text
    assert [e.text for e in section.all("td", "wrong")] == ["1 wrong", "1 wrong"]
    assert len(section.all("td", "right")) == 5


def test_page_gate_shows_remedies(page: Element) -> None:
    """Each check of the gate with what was expected, observed, and what to do."""
    rows = [e.text for e in page.section("gate").all("tr")]
    assert any("unset it before a timed run on a GPU" in row for row in rows)


@pytest.mark.parametrize("planned", [0, 15])
def test_page_without_executed_checks_is_no_success(planned: int) -> None:
    """Zero executed checks is said in the headline, and the page says it wherever something is missing."""
    page = parse(render(empty(planned=planned)))
    assert page.all("h1")[0].text == f"0 of {planned} checks executed. Zero executed checks is not a success."
    assert page.all("header", "bad")
    assert "The integrity gate did not run" in page.section("gate").text
    assert "No run was diagnosed." in page.section("confusion").text


def test_page_shows_checks_without_runs_and_runs_without_checks() -> None:
    """Half an incident is shown as half an incident."""
    alone = check(("scenario_x", "lost", "w", "cpu"), "control", "PASSED")
    page = parse(render(sample(checks=[alone], incidents=[scheduler_incident()])))
    texts = [e.text for e in page.all("section", "incident")]
    assert any("No checks were planned here." in text for text in texts)
    assert any("No runs were recorded for these checks." in text for text in texts)


def test_page_shows_every_invariant_beyond_the_five() -> None:
    """A check of an incident that is not one of the five still has a row and a mark."""
    place = ("scenario_x", "cause", "w", "cpu")
    both = [check(place, "control", "PASSED"), check(place, "timing", "FAILED")]
    page = parse(render(sample(checks=both, incidents=[])))
    (link,) = page.section("matrix").all("a")
    assert link.text == ", ".join(
        ["control PASSED", *(f"{name} not planned" for name in INVARIANTS[1:]), "timing FAILED"]
    )


def test_page_gives_a_check_of_its_own_one_mark() -> None:
    """A check that belongs to no incident has no five invariants, and nothing about it is called missing."""
    place = ("scenario_x", "baseline", "w", "cpu")
    page = parse(render(sample(checks=[check(place, "check", "PASSED")], incidents=[])))
    (link,) = page.section("matrix").all("a")
    (section,) = page.all("section", "incident")
    assert link.text == "check PASSED"
    assert section.all("h6")[0].text == "Checks"
    assert "No runs were recorded" not in section.text


def test_page_keeps_two_incidents_of_one_place() -> None:
    """The second of two incidents with one name is not lost."""
    page = parse(render(sample(incidents=[scheduler_incident(), scheduler_incident()], checks=[])))
    assert len(page.all("section", "incident")) == 2


def test_page_same_results_give_same_bytes() -> None:
    """A page holds no time, no random id and no order of arrival."""
    results = sample()
    shuffled = msgspec.structs.replace(results, checks=results.checks[::-1], incidents=results.incidents[::-1])
    assert render(results) == render(sample()) == render(shuffled)


def test_write_report_writes_page_and_results(tmp_path: Path) -> None:
    """Both files are there, nothing else is, and the page is the one that the results give."""
    path = write_report(sample(), tmp_path / "new" / "folder")
    assert path.read_text(encoding="utf-8") == render(sample())
    assert sorted(p.name for p in path.parent.iterdir()) == ["report.html", "results.json"]
    results = msgspec.json.decode((path.parent / "results.json").read_bytes(), type=Results)
    assert render(results) == render(sample())


def test_page_gate_that_stopped_the_session_is_the_headline() -> None:
    """Nothing is measured on a broken device, and the page says why."""
    page = parse(render(empty(planned=3, gate=Gate(outcome="FAILED", checks=[]))))
    assert page.all("h1")[0].text.startswith("The integrity gate stopped the session: 0 of 3 checks executed.")
    assert "The integrity gate ended as FAILED and names no check." in page.section("gate").text
