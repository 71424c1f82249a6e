"""What is wrong with this run? Every rule is asked; the first finding is the best supported one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from harness.diagnose.base import RULES, Rule
from harness.diagnose.finding import Diagnosis, Evidence, Finding, Missing, Status
from harness.diagnose.known import Known, parted
from harness.diagnose.observations import LOST, Observations

INTEGRITY = "uncontrolled_comparison"
"""Asked first: when two runs are not comparable, nothing else can be read from their difference."""


UNKNOWN = "unknown"
"""The cause of a symptom that no rule explains."""

TOLD_APART = 0.5
"""Confidence from which a finding says where the trouble is; below it only that there is some."""


def diagnose(observations: Observations, known: Collection[Known] = ()) -> Diagnosis:
    """Return the ranked findings, or why there are none; what is ``known`` is told apart and does not count."""
    integrity = _judge(INTEGRITY, RULES.load(INTEGRITY), observations)
    if isinstance(integrity, Finding):
        return Diagnosis(status="inconclusive", findings=[integrity], checked=[INTEGRITY])
    answers = {name: _judge(name, rule, observations) for name, rule in RULES.load_all().items()}
    findings = [answer for answer in answers.values() if isinstance(answer, Finding)]
    missing = [entry for answer in answers.values() if isinstance(answer, list) for entry in answer]
    seen = observations.has("attempted_steps")
    checked = [name for name, answer in answers.items() if seen and not isinstance(answer, list)]
    if not findings:
        findings = _unexplained(observations)
    if not findings and (unseen := _updated_by_hand(observations)):
        return Diagnosis(status="not_enough_evidence", missing=unseen)
    findings, old = parted(sorted(findings, key=lambda finding: -finding.confidence), known)
    status = _status(observations, findings, missing)
    return Diagnosis(status=status, findings=findings, missing=missing, checked=checked, known=old)


SERIOUS: tuple[Status, ...] = ("diagnosed", "inconclusive", "not_enough_evidence", "healthy")
"""Of several processes, runs or files the first of these is the status of all."""


def merged(diagnoses: list[Diagnosis], *, each_cause_once: bool = False) -> Diagnosis:
    """Return one diagnosis of several processes, runs or files: the findings of all, and what each of them checked.

    ``each_cause_once`` keeps the surest finding of a cause at a place: the ranks of one training share their faults.
    """
    findings = _ranked((finding for d in diagnoses for finding in d.findings), each_cause_once=each_cause_once)
    checked = [set(diagnosis.checked) for diagnosis in diagnoses]
    every = set.intersection(*checked) if checked else set()
    missing = {(m.needed_for, m.observation): m for d in diagnoses for m in d.missing if m.needed_for not in every}
    return Diagnosis(
        status=min((d.status for d in diagnoses), key=SERIOUS.index, default="not_enough_evidence"),
        findings=findings,
        missing=list(missing.values()),
        checked=sorted(every),
        known=_ranked((finding for d in diagnoses for finding in d.known), each_cause_once=each_cause_once),
    )


def _ranked(findings: Iterable[Finding], *, each_cause_once: bool) -> list[Finding]:
    ranked = sorted(findings, key=lambda finding: -finding.confidence)
    if not each_cause_once:
        return ranked
    surest: dict[tuple[str, str], Finding] = {}
    for finding in ranked:
        surest.setdefault((finding.cause, finding.place), finding)
    return list(surest.values())


def _judge(name: str, rule: Rule, observations: Observations) -> Finding | list[Missing] | None:
    """Return a finding, None for 'not this', or what is missing to tell."""
    unknown = [name for name in rule.gate if not observations.is_told(name)]
    if not unknown and not rule.applies(observations):
        return None
    absent = unknown or [need for need in rule.needs if not observations.has(need)]
    match = rule.judge(observations) if not absent or rule.partial else None
    if match:
        place = observations.place(*rule.sites)
        return Finding(category=rule.category, cause=name, place=place, **vars(match))
    return [Missing(observation=n, needed_for=name, command=observations.command_for(n)) for n in absent] or None


HALF_BITS = 10
"""Mantissa bits of fp16; weights with no more of them lose small updates."""


def _updated_by_hand(observations: Observations) -> list[Missing]:
    """Say what cannot be seen of updates without an optimizer, where the formats make it matter."""
    in_half = (observations.number("train_weight_bits") or 64) <= HALF_BITS
    in_fp16 = "float16" in observations.text("train_formats").split(",")
    if observations.number("attempted_steps") != 0 or not (in_half or in_fp16):
        return []
    told = "updates: no optimizer took a step, and weights that are written by hand are not looked at"
    command = "take the step with torch.optim.SGD(...).step() once, and watch again"
    return [Missing(observation=told, needed_for="every cause", command=command)]


def _status(observations: Observations, findings: list[Finding], missing: list[Missing]) -> Status:
    if findings:
        return "diagnosed" if findings[0].confidence >= TOLD_APART else "inconclusive"
    needed = [entry for entry in missing if not RULES.load(entry.needed_for).optional]
    if needed or not observations.has("attempted_steps") or observations.run.state != "completed":
        return "not_enough_evidence"
    return "healthy"


def _unexplained(observations: Observations) -> list[Finding]:
    """Name a symptom that no rule explains: the category and the next experiment, never a forced cause.

    Zeros among the gradients are told but are no symptom: a model that has learned its data has them too.
    """
    harm = []
    if observations.is_regressed:
        harm.append(observations.evidence("val_regression", f">= {observations.regression_bound:.3g}"))
    if observations.is_lost:
        harm.append(observations.evidence("nonfinite_loss_share", f">= {LOST}"))
    if observations.is_metric_lost:
        harm.append(observations.evidence("val_metric", "not a finite number"))
    if not harm:
        return []
    if observations.is_metric_lost and not observations.is_lost:
        return [_metric_lost(harm)]
    if observations.is_lost and (observations.reference is None or observations.is_reference_lost):
        return [_lost(observations, harm)]
    zeros = [observations.context("zero_grad_excess")] if observations.has("zero_grad_excess") else []
    return [
        Finding(
            category="precision",
            cause=UNKNOWN,
            confidence=0.5,
            summary="The run is worse than its fp32 reference, and none of the known causes has its evidence.",
            evidence=harm + zeros,
            confirm=(
                "Repeat both with two more seeds: a regression is real when it is larger than the spread over seeds."
            ),
            action=(
                "Run single blocks in fp32 (autocast(enabled=False)), half of the model at a time, until it disappears."
            ),
        )
    ]


def _lost(observations: Observations, harm: list[Evidence]) -> Finding:
    """Tell losses that are not finite where no healthy fp32 run says that the format is to blame."""
    share = observations.number("nonfinite_loss_share") or 0.0
    alone, first = observations.reference is None, observations.number("nonfinite_loss_first")
    since = f", the first that of backward pass {first:.0f}" if first else ""
    return Finding(
        category="precision",
        cause=UNKNOWN,
        confidence=0.3,
        summary=f"{share:.0%} of the losses are not finite{since}"
        + ("." if alone else ", in the fp32 reference too: neither the format nor the loss scale is to blame."),
        evidence=harm,
        confirm="Run the same once in fp32." if alone else "Train on the first hundred samples, then on others.",
        action="Look for values that are not finite in the data, and halve the learning rate once.",
    )


def _metric_lost(harm: list[Evidence]) -> Finding:
    """Tell a metric that is not a number while the losses are."""
    return Finding(
        category="precision",
        cause=UNKNOWN,
        confidence=0.5,
        summary="The validation metric is not a finite number, although the training losses are.",
        evidence=harm,
        confirm="Compute the metric once from outputs and targets in float32.",
        action="Convert outputs to float32 before the metric, and look for a division by zero in it.",
    )
