"""Files of telemetry as the tools write them, with the numbers that a test asks for."""

from __future__ import annotations

from harness.diagnose.finding import Diagnosis

HEADER = (
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], "
    "power.limit [W], power.default_limit [W], temperature.gpu, clocks.current.sm [MHz], clocks.max.sm [MHz], "
    "clocks_throttle_reasons.active, ecc.errors.uncorrected.volatile.total, pcie.link.gen.current, pcie.link.gen.max, "
    "pcie.link.width.current, pcie.link.width.max"
)

GOOD: dict[str, str] = {
    "index": "0",
    "util": "98 %",
    "used": "61203 MiB",
    "power": "371.20 W",
    "limit": "400.00 W",
    "default": "400.00 W",
    "temp": "61",
    "clock": "1380 MHz",
    "max": "1410 MHz",
    "reasons": "0x0000000000000000",
    "ecc": "0",
    "gen": "4",
    "width": "16",
}


def row(second: int = 0, /, **changed: str) -> str:
    """Return a row of an A100 under load, with changes."""
    cell = GOOD | changed
    return (
        f"2025/03/04 10:00:{second:02d}.123, {cell['index']}, NVIDIA A100-SXM4-80GB, {cell['util']}, {cell['used']}, "
        f"81920 MiB, {cell['power']}, {cell['limit']}, {cell['default']}, {cell['temp']}, "
        f"{cell['clock']}, {cell['max']}, {cell['reasons']}, {cell['ecc']}, {cell['gen']}, 4, {cell['width']}, 16"
    )


def query(*rows: str, header: str = HEADER, end: str = "\n") -> str:
    """Return the whole output of ``nvidia-smi --query-gpu=... --format=csv``."""
    return end.join([header, *rows, ""])


def steady(count: int = 10, /, **changed: str) -> str:
    """Return samples that are all alike."""
    return query(*(row(second, **changed) for second in range(count)))


TABLE_HEAD = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|=========================================+======================+======================|
"""


def table_row(gpu: int, util: str = "97%", power: str = "280W / 300W", used: int = 21000, ecc: str = "0") -> str:
    """Return the rows of a GPU in the table of plain ``nvidia-smi``."""
    return (
        f"|   {gpu}  NVIDIA A100 80GB PCIe          On  | 00000000:0{gpu}:00.0 Off |                    {ecc} |\n"
        f"| N/A   58C    P0             {power} |  {used}MiB / 81920MiB |     {util}      Default |\n"
        "|                                         |                      |             Disabled |\n"
        "+-----------------------------------------+----------------------+----------------------+\n"
    )


def processes(*lines: tuple[int, int, str, str, int]) -> str:
    """Return the lower table: GPU, pid, kind, name, MiB of each process."""
    body = "".join(f"|  {g:3}   N/A  N/A   {pid:7}      {k}   {n:35} {m:6}MiB |\n" for g, pid, k, n, m in lines)
    rest = "|  No running processes found" + " " * 60 + "|\n"
    return "\n| Processes:                                                              |\n" + (body or rest)


def causes(diagnosis: Diagnosis) -> list[str]:
    """Return the causes that were found."""
    return [finding.cause for finding in diagnosis.findings]
