"""What is wrong in a training log? Every rule is asked about every run of it."""

from __future__ import annotations

from collections.abc import Collection

from harness.diagnose.base import Match
from harness.diagnose.diagnosis import TOLD_APART, merged
from harness.diagnose.finding import Diagnosis, Finding, Missing, Status
from harness.diagnose.known import Known, parted
from harness.logs.base import LOG_RULES, Doubt, LogRule
from harness.logs.normal import Log, LoggedRun, Series

LEAST_LOSSES = 5
"""Losses below which a log is too short to be called healthy."""

SPARSE = 50
"""Lines a number from which numbers without a step are those of a text that speaks of losses now and then."""


def diagnose_log(log: Log, known: Collection[Known] = ()) -> Diagnosis:
    """Return what the log shows, or what it would have to show."""
    if not any(set(run.series) - ASIDE or run.skips or run.parts for run in log.runs):
        return Diagnosis(status="not_enough_evidence", missing=[_no_log(log)])
    return merged([_diagnose_run(run, known) for run in log.runs])


def _diagnose_run(run: LoggedRun, known: Collection[Known]) -> Diagnosis:
    rules = LOG_RULES.load_all()
    verdicts = {name: rule.judge(run) for name, rule in rules.items()}
    findings = [_finding(run, name, rules[name], v) for name, v in verdicts.items() if isinstance(v, Match)]
    findings = _told_once(findings)
    doubts = [_doubted(run, name, verdict) for name, verdict in verdicts.items() if isinstance(verdict, Doubt)]
    checked = [name for name, rule in rules.items() if rule.can_judge(run) and not isinstance(verdicts[name], Doubt)]
    unable = [
        Missing(observation=rule.needs, needed_for=name, command=f"log {rule.to_log}")
        for name, rule in sorted(rules.items(), key=lambda item: (*ASKED_FIRST, item[0]).index(item[0]))
        if not rule.can_judge(run) and verdicts[name] is None
    ]
    findings, old = parted(sorted(findings, key=lambda finding: -finding.confidence), known)
    missing = doubts + _unnamed(run) + unable
    status = _status(run, findings, doubts)
    return Diagnosis(status=status, findings=findings, missing=missing, checked=checked, known=old)


def _unnamed(run: LoggedRun) -> list[Missing]:
    """Say that a scalar has no name, where only its file could tell it."""
    if "unnamed" not in run.series:
        return []
    return [
        Missing(
            observation=f"what the column Value measures: {run.file} does not say, and it is no loss by its course",
            needed_for="every cause",
            command="name the file after the scalar, as TensorBoard does (run-train-tag-loss.csv)",
        )
    ]


ASIDE = {"memory", "elapsed_s", "lr"}
"""What other texts speak of as well; alone it makes no training log."""

ASKED_FIRST = ("loss_nan", "loss_divergence", "loss_stuck", "overfitting", "underfitting")
"""What most logs could tell and a reader misses most; the rest follows in the order of the names."""

IMPLIED = {
    "loss_divergence": {"loss_nan"},
    "loss_spikes": {"loss_nan", "loss_divergence"},
    "underfitting": {"loss_stuck", "loss_nan"},
    "loss_stuck": {"loss_nan"},
}
"""What a cause is only a sign of, when that one is found too."""


def _told_once(findings: list[Finding]) -> list[Finding]:
    causes = {finding.cause for finding in findings}
    return [finding for finding in findings if not IMPLIED.get(finding.cause, set()) & causes]


def _finding(run: LoggedRun, name: str, rule: LogRule, match: Match) -> Finding:
    parts = dict(vars(match))
    parts["summary"] = f"{run.number}: {match.summary}" if run.number else match.summary
    return Finding(category=rule.category, cause=name, place=match.evidence[0].source, **parts)


def _doubted(run: LoggedRun, name: str, doubt: Doubt) -> Missing:
    of = f"{run.number}: " if run.number else ""
    return Missing(observation=of + doubt.observation, needed_for=name, command=doubt.to_log)


def _status(run: LoggedRun, findings: list[Finding], doubts: list[Missing]) -> Status:
    if findings:
        return "diagnosed" if findings[0].confidence >= TOLD_APART else "inconclusive"
    series = [run.get("loss"), run.get("val_loss"), *run.parts.values()]
    enough = any(len(one.finite) >= LEAST_LOSSES and _dense(one) for one in series)
    return "healthy" if enough and not doubts else "not_enough_evidence"


def _dense(series: Series) -> bool:
    """Whether the numbers are those of a log: counted by steps or epochs, or one in fifty lines at least."""
    first, last = series.finite[0], series.finite[-1]
    counted = first.step != last.step or first.epoch != last.epoch
    return counted or len(series.finite) * SPARSE >= last.line - first.line


def _no_log(log: Log) -> Missing:
    seen = (
        f"none of the {log.num_lines} line(s) holds a loss, a step or a loss scale"
        if log.num_lines
        else "the file is empty"
    )
    return Missing(
        observation=f"numbers of training: {seen}",
        needed_for="every cause",
        command=(
            "give a training log: a line a step with step and loss, and with val_loss, grad_norm, step_time where "
            "they exist"
        ),
    )
