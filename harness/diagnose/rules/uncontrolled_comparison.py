"""Two runs that were compared although they differ in more than the declared part."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule
from harness.diagnose.finding import Evidence
from harness.diagnose.observations import Observations


def possible(observations: Observations) -> bool:
    """There is a second run."""
    return observations.reference is not None


def judge(observations: Observations) -> Match | None:
    """List what differs besides the declared part."""
    if not observations.differences:
        return None
    return Match(
        confidence=1.0,
        summary=(
            f"Not comparable: besides {', '.join(observations.declared)} the runs differ in "
            + "; ".join(observations.differences)
            + ". No cause can be read from their difference."
        ),
        evidence=[
            observations.evidence("undeclared_differences", "> 0"),
            *(
                Evidence(name="difference", value=line, unit="", threshold="none allowed", source="start records")
                for line in observations.differences
            ),
        ],
        confirm="Run both again with everything equal but the declared part.",
        action="Use the same seed, data, augmentation, shapes and versions for both runs; change one part at a time.",
    )


RULE = Rule(category="precision", applies=possible, needs=("undeclared_differences",), judge=judge)
