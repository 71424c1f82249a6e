"""Are the faults of a GPU found in samples of it, and only there?"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.finding import Diagnosis
from harness.telemetry.diagnosis import diagnose_telemetry
from harness.telemetry.read import read_telemetry
from tests.telemetry.made import TABLE_HEAD as HEAD
from tests.telemetry.made import causes, processes, query, row, steady, table_row


def judged(folder: Path, text: str) -> Diagnosis:
    """Return the diagnosis of a file with this text."""
    path = folder / "telemetry.txt"
    path.write_text(text, encoding="utf-8")
    return diagnose_telemetry(read_telemetry(path))


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"reasons": "0x0000000000000020", "temp": "88", "clock": "1095 MHz"}, "thermal_throttle"),
        ({"reasons": "0x0000000000000048", "temp": "91", "clock": "705 MHz"}, "thermal_throttle"),
        ({"reasons": "0x0000000000000008", "temp": "89", "clock": "705 MHz"}, "thermal_throttle"),
        ({"reasons": "0x0000000000000088", "temp": "45", "clock": "345 MHz"}, "power_throttle"),
        ({"reasons": "0x0000000000000004", "power": "249.8 W", "limit": "250.00 W", "clock": "1300 MHz"}, "power_cap"),
        ({"reasons": "0x0000000000000004", "clock": "690 MHz"}, "power_cap"),
        ({"reasons": "0x0000000000000004", "clock": "900 MHz", "default": "[N/A]"}, "power_cap"),
        ({"reasons": "[N/A]", "power": "399.0 W", "clock": "900 MHz", "default": "[N/A]"}, "power_cap"),
        ({"clock": "210 MHz", "power": "90.00 W"}, "stuck_clock"),
        ({"clock": "600 MHz", "reasons": "0x0000000000000002"}, "stuck_clock"),
        ({"ecc": "3"}, "ecc_errors"),
        ({"power": "[GPU requires reset]"}, "ecc_errors"),
        ({"width": "4"}, "narrow_pcie_link"),
        ({"gen": "1"}, "narrow_pcie_link"),
    ],
)
def test_a_fault_in_every_sample(changed: dict[str, str], cause: str, tmp_path: Path) -> None:
    """The first finding is of the card, with numbers, a line of the file, the GPU and what to do."""
    result = judged(tmp_path, steady(**changed))
    first = result.findings[0]
    assert (result.status, first.category, causes(result)) == ("diagnosed", "hardware", [cause])
    assert first.place.endswith("telemetry.txt:2")
    assert first.summary.startswith("GPU 0: ")
    assert first.evidence
    assert first.confirm
    assert first.action


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"reasons": "0x0000000000000004", "power": "399.1 W", "clock": "1275 MHz"},
        {"reasons": "0x0000000000000004", "power": "399.1 W", "clock": "930 MHz"},
        {"reasons": "0x0000000000000001"},
        {"reasons": "[N/A]", "ecc": "[N/A]"},
        {"reasons": "[Not Supported]", "clock": "[Not Supported]", "temp": "[Unknown Error]"},
        {"reasons": "0x0000000000000002", "clock": "1005 MHz"},
        {"reasons": "0x0000000000000010"},
        {"temp": "84"},
        {"limit": "250.00 W", "power": "180.00 W"},
        {"power": "[N/A]", "limit": "[N/A]"},
        {"util": "93 %", "power": "160.00 W"},
    ],
)
def test_no_fault(changed: dict[str, str], tmp_path: Path) -> None:
    """A power limit that costs little, clocks set by hand, warm cards, numbers that are not there: all sound."""
    assert causes(judged(tmp_path, steady(**changed))) == []


def test_healthy_says_what_was_checked(tmp_path: Path) -> None:
    """With all columns only the processes are left in doubt."""
    result = judged(tmp_path, steady())
    assert result.status == "healthy"
    assert set(result.checked) >= {"thermal_throttle", "power_cap", "ecc_errors", "stuck_clock", "narrow_pcie_link"}
    assert {missing.needed_for for missing in result.missing} == {"other_process_on_gpu"}


@pytest.mark.parametrize("reasons", ["0x0000000000000008", "0x0000000000000040", "0x0000000000000020"])
def test_reasons_at_rest_are_no_fault(reasons: str, tmp_path: Path) -> None:
    """Nothing runs: hw_slowdown may be reported while the state changes; the answer is that there is no load."""
    idle = {"util": "0 %", "clock": "210 MHz", "power": "55.1 W", "gen": "1", "reasons": reasons}
    result = judged(tmp_path, steady(**idle))
    assert (result.status, causes(result)) == ("not_enough_evidence", [])
    assert "nothing runs" in result.missing[0].observation


@pytest.mark.parametrize("times", [1, 4])
def test_a_passing_slowdown_is_no_fault(times: int, tmp_path: Path) -> None:
    """Below one sample in twenty."""
    hot = {"reasons": "0x0000000000000020"}
    rows = [row(at % 60, **(hot if at < times else {})) for at in range(100)]
    assert judged(tmp_path, query(*rows)).status == "healthy"


@pytest.mark.parametrize("share", [10, 40, 70])
def test_low_utilisation_is_no_finding(share: int, tmp_path: Path) -> None:
    """It says nothing about its reason: a trace does."""
    result = judged(tmp_path, steady(util=f"{share} %", power="150.0 W"))
    assert (result.status, causes(result)) == ("not_enough_evidence", [])
    assert "profile" in result.missing[0].command


def test_rest_before_and_after_the_training_does_not_count(tmp_path: Path) -> None:
    """Busy from its first to its last busy sample."""
    rest = {"util": "0 %", "power": "60.0 W", "clock": "210 MHz", "gen": "1", "reasons": "0x0000000000000001"}
    rows = [row(at, **(rest if at < 8 or at > 30 else {})) for at in range(40)]
    assert judged(tmp_path, query(*rows)).status == "healthy"


def test_the_gpu_that_has_it_is_named(tmp_path: Path) -> None:
    """Of four GPUs, two are hot; those at rest do not matter."""
    hot = {"reasons": "0x0000000000000040", "clock": "705 MHz", "temp": "90"}
    rows = [row(at, index=str(gpu), **(hot if gpu in {1, 3} else {})) for at in range(5) for gpu in range(4)]
    first = judged(tmp_path, query(*rows)).findings[0]
    assert first.summary.startswith("GPU 1: ")
    assert "GPU 3" in first.summary


@pytest.mark.parametrize(("count", "found"), [(1, []), (2, ["unknown"]), (8, ["unknown"])])
def test_gpus_that_spin(count: int, found: list[str], tmp_path: Path) -> None:
    """Several GPUs at 100 % and idle power wait for each other; one alone may run tiny kernels."""
    text = HEAD + "".join(table_row(gpu, "100%", "65W / 300W", 700) for gpu in range(count))
    result = judged(tmp_path, text)
    assert causes(result) == found
    assert [finding.category for finding in result.findings] == ["communication"] * len(found)
    assert result.status == ("diagnosed" if found else "not_enough_evidence")


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ([(0, 11, "C", "python", 20000)], []),
        ([(0, 11, "C", "/opt/conda/bin/python3.11", 20000), (0, 9, "G", "/usr/lib/xorg/Xorg", 90)], []),
        ([(0, 11, "C", "python", 20000), (0, 12, "C", "nvidia-cuda-mps-server", 30)], []),
        ([(0, 11, "C", "python", 9000), (0, 12, "C", "python3", 9000)], []),
        ([(0, 11, "C", "python", 9000), (0, 12, "C", "ollama", 500)], []),
        ([(0, 11, "C", "python", 9000), (0, 12, "C", "/usr/local/bin/ollama", 14000)], ["other_process_on_gpu"]),
        ([], []),
    ],
)
def test_programs_that_share_a_gpu(
    listed: list[tuple[int, int, str, str, int]], found: list[str], tmp_path: Path
) -> None:
    """Programs of several names; desktops, services and bare contexts do not count."""
    assert causes(judged(tmp_path, HEAD + table_row(0) + processes(*listed))) == found


def test_two_processes_of_one_name_are_a_doubt(tmp_path: Path) -> None:
    """They may be of one job: said, with the command that tells."""
    text = HEAD + table_row(0) + processes((0, 11, "C", "python", 9000), (0, 12, "C", "python", 9000))
    result = judged(tmp_path, text)
    assert result.status == "healthy"
    assert any("2 processes python on GPU 0" in missing.observation for missing in result.missing)


def test_memory_without_a_process_is_a_doubt(tmp_path: Path) -> None:
    """A container does not show whose memory it is."""
    result = judged(tmp_path, HEAD + table_row(0) + table_row(1, "0%", "60W / 300W", 40000) + processes())
    assert (result.status, causes(result)) == ("healthy", [])
    assert any("GPU 1 while nothing runs" in missing.observation for missing in result.missing)
