"""The exceptions of the harness, and the exit code that each one means.

    HarnessError            1  something that the user can act on went wrong
    |-- UsageError          2  the input is wrong: what was given, what is accepted, where
    |   `-- WorkloadError   2  a user's workload lacks a part, or a part misbehaves
    |-- NotComparable       2  two runs differ in more than the declared part
    |-- EvidenceError       2  an evidence file is broken or was changed
    |-- DeviceError         2  a device is absent, busy or sick: the run is refused
    `-- LaunchError         1  a process could not be started or watched

The message is one sentence that a user reads without a traceback. Anything else that is raised
is our own bug and keeps its traceback.
"""

from __future__ import annotations


class HarnessError(Exception):
    """Base of everything that a user can act on."""

    exit_code = 1


class UsageError(HarnessError):
    """The input is wrong; the message says what was given, what is accepted, and where."""

    exit_code = 2


class WorkloadError(UsageError):
    """A workload lacks a part, or one of its parts does not do what its contract says."""


class NotComparable(HarnessError):
    """Two runs differ in more than the one declared part.

    ``differences`` holds one line for each undeclared difference.
    """

    exit_code = 2

    def __init__(self, differences: list[str]) -> None:
        self.differences = differences
        super().__init__("not comparable: the runs also differ in " + "; ".join(differences))


class EvidenceError(HarnessError):
    """An evidence file is unreadable, incomplete, or does not match its own hashes."""

    exit_code = 2


class DeviceError(HarnessError):
    """A device is absent, busy, or fails its checks: nothing was run."""

    exit_code = 2


class LaunchError(HarnessError):
    """A process could not be started or watched."""
