"""Are the tools' formats read, and other files left alone?"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.telemetry.diagnosis import diagnose_telemetry
from harness.telemetry.normal import Sample
from harness.telemetry.read import kind_of, read_telemetry
from tests.telemetry.made import GOOD, HEADER, TABLE_HEAD, causes, processes, query, row, steady, table_row

DMON = """\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  pviol  tviol
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz      %   bool
    0    391     64     70     99     61      0      0      0      0   1593   1350      0      {hot}
    1    388     63      -     98     60      0      0      0      0   1593   1365      0      0
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  pviol  tviol
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz      %   bool
    0    390     64     70     97     61      0      0      0      0   1593   1350      0      {hot}
    1    389      -      -     98     60      0      0      0      0   1593   1365      0      0
"""

DATED = """\
#Date       Time        gpu    pwr  gtemp     sm   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      %    MHz
 20250304   10:00:01      0    391     64     99   1350
"""

PMON = """\
# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command
# Idx           #    C/G      %      %      %      %      %      %    name
    0       {pid}      C     96     55      -      -      -      -    python train.py
    0       20111      C      3      1      -      -      -      -    {other}
    1          -      -      -      -      -      -      -      -    -
"""

DCGM = """\
#Entity   GPUTL  POWER     TMPTR  SMCLK  SMMAX  DVCCTR
ID               W         C
GPU 0     99     388.123   66     {clock}   1980   {mask}
GPU 1     98     N/A       65     1905   1980   0
"""

REPORT = """\
==============NVSMI LOG==============

Timestamp                                 : Tue Mar  4 10:00:00 2025
Driver Version                            : 550.54.15
Attached GPUs                             : 1
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Disabled
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
                Device Current            : 5
            Link Width
                Max                       : 16x
                Current                   : {lanes}x
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : {cap}
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
        SW Thermal Slowdown               : Not Active
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 60120 MiB
    Utilization
        Gpu                               : 99 %
        Memory                            : 50 %
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            DRAM Uncorrectable            : {ecc}
        Aggregate
            DRAM Uncorrectable            : 7
    Remapped Rows
        Correctable Error                 : 0
        Pending                           : {pending}
        Remapping Failure Occurred        : No
    GPU Power Readings
        Average Power Draw                : 690.10 W
        Current Power Limit               : 700.00 W
        Default Power Limit               : 700.00 W
    Clocks
        Graphics                          : 1755 MHz
        SM                                : 1755 MHz
    Max Clocks
        Graphics                          : 1980 MHz
        SM                                : 1980 MHz
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 4242
            Type                          : C
            Name                          : python
            Used GPU Memory               : 60000 MiB
"""

SOUND = {"lanes": "16", "cap": "Active", "ecc": "0", "pending": "No"}

MIG = "index, mig.mode.current, utilization.gpu [%], memory.used [MiB]\n0, Enabled, [N/A], 100 MiB\n"


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    """Write a file under a name that says nothing."""
    path = folder / "file"
    path.write_bytes(text.encode(encoding))
    return path


def sample_of(folder: Path, text: str) -> Sample:
    """Return the first sample of a file."""
    return read_telemetry(written(folder, text)).samples[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (steady(), "nvidia-smi --query-gpu"),
        (steady().replace(", ", ";"), "nvidia-smi --query-gpu"),
        ("\n".join(f'"{line}"'.replace(", ", '","') for line in steady().splitlines()), "nvidia-smi --query-gpu"),
        ("job 17 on node a\n" + steady(), "nvidia-smi --query-gpu"),
        (DMON, "nvidia-smi dmon"),
        (DATED, "nvidia-smi dmon"),
        (DCGM, "nvidia-smi dmon"),
        (REPORT, "nvidia-smi -q"),
        (TABLE_HEAD + table_row(0), "nvidia-smi"),
        (table_row(0), "nvidia-smi"),
        ("\n".join(row(at) for at in range(3)), "nvidia-smi --format=csv,noheader"),
        ('<?xml version="1.0" ?>\n<nvidia_smi_log>\n', "nvidia-smi -q -x"),
        ("step,loss,utilization.gpu [%]\n1,2.0,99 %\n", ""),
        ("epoch,accuracy\n1,0.5\n", ""),
        ("index, name\n0, train\n", ""),
        ("# Entity of the training\nmodel: resnet\n", ""),
        ("", ""),
        (TABLE_HEAD + table_row(0) + "step 1 loss 2.31\nstep 2 loss 2.21\n", ""),
        (TABLE_HEAD + table_row(0) + "Epoch 1: accuracy 0.5\n", ""),
        (TABLE_HEAD + table_row(0) + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", ""),
    ],
)
def test_the_kind_is_told_by_content(text: str, kind: str, tmp_path: Path) -> None:
    """A training log stays one, also when its job script ran nvidia-smi first."""
    assert kind_of(written(tmp_path, text)) == kind


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends(encoding: str, end: str, tmp_path: Path) -> None:
    """PowerShell writes UTF-16 with CRLF."""
    path = written(tmp_path, query(*(row(at) for at in range(4)), end=end), encoding)
    result = diagnose_telemetry(read_telemetry(path))
    assert result.status == "healthy"


def test_units_and_reasons_of_a_query(tmp_path: Path) -> None:
    """Units are left out of numbers, the mask becomes names."""
    sample = sample_of(tmp_path, steady(reasons="0x0000000000000024"))
    assert sample.numbers["sm_clock"] == 1380.0
    assert sample.numbers["power"] == 371.2
    assert sample.reasons == frozenset({"sw_power_cap", "sw_thermal_slowdown"})
    assert (sample.gpu, sample.line) == ("0", 2)


def test_without_units(tmp_path: Path) -> None:
    """``nounits`` keeps them in the header."""
    text = steady(**{name: value.split()[0] for name, value in GOOD.items()})
    assert sample_of(tmp_path, text).numbers["power"] == 371.2


def test_reasons_in_columns_of_their_own(tmp_path: Path) -> None:
    """As a bit each: Active and Not Active."""
    header = "index, utilization.gpu [%], clocks_event_reasons.sw_power_cap, clocks_event_reasons.hw_thermal_slowdown\n"
    assert sample_of(tmp_path, header + "3, 99 %, Not Active, Active\n").reasons == frozenset({"hw_thermal_slowdown"})
    assert sample_of(tmp_path, header + "3, 99 %, [N/A], [N/A]\n").reasons is None


def test_noheader_says_what_it_lacks(tmp_path: Path) -> None:
    """Numbers without names are not guessed."""
    result = diagnose_telemetry(read_telemetry(written(tmp_path, "\n".join(row(at) for at in range(3)))))
    assert result.status == "not_enough_evidence"
    assert "noheader" in result.missing[0].observation
    assert "--format=csv" in result.missing[0].command


@pytest.mark.parametrize("cut", [1, 30, 90, 200])
def test_a_cut_last_row_is_left_out(cut: int, tmp_path: Path) -> None:
    """The program was stopped while it wrote."""
    text = steady(4)
    result = read_telemetry(written(tmp_path, text[: text.rindex("2025/") + cut]))
    assert len(result.samples) in {3, 4}
    assert diagnose_telemetry(result).status == "healthy"


def test_a_header_alone(tmp_path: Path) -> None:
    """Nothing was sampled."""
    assert diagnose_telemetry(read_telemetry(written(tmp_path, HEADER + "\n"))).status == "not_enough_evidence"


@pytest.mark.parametrize(("hot", "found"), [("0", []), ("1", ["thermal_throttle"])])
def test_dmon(hot: str, found: list[str], tmp_path: Path) -> None:
    """Repeated headers, ``-`` for what is not there, thermal violations as a reason."""
    telemetry = read_telemetry(written(tmp_path, DMON.replace("{hot}", hot)))
    assert [gpu.name for gpu in telemetry.gpus()] == ["0", "1"]
    assert "temperature" not in telemetry.samples[-1].numbers
    assert causes(diagnose_telemetry(telemetry)) == found


def test_dmon_with_times(tmp_path: Path) -> None:
    """``-o DT`` puts two columns before the GPU."""
    sample = sample_of(tmp_path, DATED)
    assert (sample.gpu, sample.time) == ("0", "20250304 10:00:01")
    assert sample.numbers == {"power": 391.0, "temperature": 64.0, "utilisation": 99.0, "sm_clock": 1350.0}


@pytest.mark.parametrize(("other", "found"), [("ffmpeg", ["other_process_on_gpu"]), ("python eval.py", [])])
def test_pmon(other: str, found: list[str], tmp_path: Path) -> None:
    """Commands with arguments; a GPU without a process."""
    text = PMON.replace("{pid}", "10234").replace("{other}", other)
    telemetry = read_telemetry(written(tmp_path, text))
    assert [process.pid for process in telemetry.processes] == ["10234", "20111"]
    assert causes(diagnose_telemetry(telemetry)) == found


@pytest.mark.parametrize(
    ("clock", "mask", "found"),
    [("1890", "0", []), ("1890", "4", []), ("1100", "4", ["power_cap"]), ("700", "64", ["thermal_throttle"])],
)
def test_dcgmi(clock: str, mask: str, found: list[str], tmp_path: Path) -> None:
    """Entities with a number, reasons as a decimal mask."""
    text = DCGM.replace("{clock}", clock).replace("{mask}", mask)
    telemetry = read_telemetry(written(tmp_path, text))
    assert telemetry.kind == "dcgmi dmon"
    assert causes(diagnose_telemetry(telemetry)) == found


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"pending": "N/A"}, []),
        ({"lanes": "8"}, ["narrow_pcie_link"]),
        ({"ecc": "2"}, ["ecc_errors"]),
        ({"pending": "Yes"}, ["ecc_errors"]),
    ],
)
def test_the_long_report(changed: dict[str, str], found: list[str], tmp_path: Path) -> None:
    """Errors over the card's life are history; those since the driver was loaded are not."""
    text = REPORT
    for name, value in (SOUND | changed).items():
        text = text.replace(f"{{{name}}}", value)
    result = diagnose_telemetry(read_telemetry(written(tmp_path, text)))
    assert causes(result) == found
    assert result.status == ("diagnosed" if found else "healthy")
    assert "other_process_on_gpu" in result.checked


def test_a_part_of_a_report_names_what_is_missing(tmp_path: Path) -> None:
    """Clocks alone: no utilisation, no verdict."""
    text = "    Max Clocks\n        SM                                : 1980 MHz\n"
    result = diagnose_telemetry(read_telemetry(written(tmp_path, text)))
    assert result.status == "not_enough_evidence"


def test_mig_has_no_utilisation(tmp_path: Path) -> None:
    """The answer names the tool that has it."""
    result = diagnose_telemetry(read_telemetry(written(tmp_path, MIG)))
    assert result.status == "not_enough_evidence"
    assert "dcgmi dmon" in result.missing[0].command


def test_tables_one_after_the_other(tmp_path: Path) -> None:
    """``nvidia-smi -l`` writes several samples of each GPU; an error in place of numbers is a sick card."""
    whole = TABLE_HEAD + table_row(0) + table_row(1) + processes((0, 5, "C", "python", 9000))
    telemetry = read_telemetry(written(tmp_path, whole * 3))
    assert [len(gpu.samples) for gpu in telemetry.gpus()] == [3, 3]
    sick = TABLE_HEAD + table_row(0) + table_row(1, "ERR!", "ERR! / 300W")
    assert causes(diagnose_telemetry(read_telemetry(written(tmp_path, sick)))) == ["ecc_errors"]
