"""Is the card itself sick? Its memory, and its link to the host."""

from __future__ import annotations

from harness.telemetry.load import under_load
from harness.telemetry.normal import (
    ECC_ERRORS,
    ECC_LIFETIME,
    PCIE_GEN,
    PCIE_GEN_MAX,
    PCIE_WIDTH,
    PCIE_WIDTH_MAX,
    REPAIR_FAILED,
    REPAIR_PENDING,
    RESET_NEEDED,
    UTILISATION,
    Gpu,
)
from harness.telemetry.seen import MOSTLY, Seen, number_of


def memory_errors(gpu: Gpu, file: str) -> Seen | None:
    """Errors in memory that ECC found and could not correct, or repairs that wait for a reset."""
    signs = (
        (REPAIR_FAILED, 0.95, "a row of its memory could not be replaced", "Replace the card: no spare rows are left."),
        (ECC_ERRORS, 0.9, "its memory had errors that ECC could not correct", RESET),
        (REPAIR_PENDING, 0.9, "broken memory waits for a reset to be replaced", RESET),
        (RESET_NEEDED, 0.9, "the driver reports an error in place of its numbers", RESET),
    )
    for name, confidence, told, action in signs:
        for sample in gpu.samples:
            if (sample.get(name) or 0.0) >= 1:
                evidence = number_of(sample, file, gpu, name, "errors" if name == ECC_ERRORS else "", ">= 1")
                return Seen(gpu.label, sample.line, confidence, told, evidence, action)
    return _grown(gpu, file)


RESET = (
    "Stop the work on it and reset it (nvidia-smi --gpu-reset, or reboot), then run dcgmi diag -r 3; replace it when "
    "the errors come back. Results since the first error are not to be trusted."
)


def _grown(gpu: Gpu, file: str) -> Seen | None:
    """Errors that were counted while the file was written: the count over the life of a card says nothing about now."""
    told = [sample for sample in gpu.samples if sample.get(ECC_LIFETIME) is not None]
    more = [one for one in told if (one.get(ECC_LIFETIME) or 0.0) > (told[0].get(ECC_LIFETIME) or 0.0)]
    if not more:
        return None
    evidence = number_of(
        more[0], file, gpu, ECC_LIFETIME, "errors", f"> {told[0].get(ECC_LIFETIME):.0f}, the first sample's"
    )
    return Seen(gpu.label, more[0].line, 0.9, "its memory had errors that ECC could not correct", evidence, RESET)


def narrow_link(gpu: Gpu, file: str) -> Seen | None:
    """A PCIe link with fewer lanes or a lower generation than card and slot can have; at rest it saves power."""
    loaded = under_load(gpu) if gpu.has(UTILISATION) else []
    for now, highest, unit in ((PCIE_WIDTH, PCIE_WIDTH_MAX, "lanes"), (PCIE_GEN, PCIE_GEN_MAX, "generation")):
        known = [one for one in loaded if one.get(now) is not None and one.get(highest) is not None]
        low = [one for one in known if (one.get(now) or 0.0) < (one.get(highest) or 0.0)]
        if not low or len(low) < MOSTLY * len(known):
            continue
        told = f"its PCIe link works at {unit} {low[0].get(now):.0f} of {low[0].get(highest):.0f} under load"
        evidence = number_of(low[0], file, gpu, now, unit, f">= {low[0].get(highest):.0f} expected")
        action = (
            "Seat the card or its riser again, see whether another card shares the lanes (the manual of the board), "
            "and the PCIe settings of the BIOS. It matters as far as the training copies between host and card."
        )
        return Seen(gpu.label, low[0].line, 0.7, told, evidence, action)
    return None
