"""Which numbers describe a run? Observations, derived from its records and from a reference run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection
from statistics import median

from harness.config import RunSpec, argv, changed
from harness.diagnose.comparable import undeclared_differences
from harness.diagnose.finding import NO_BOUND, Evidence
from harness.diagnose.vocabulary import TEXTS, unit_of
from harness.errors import UsageError
from harness.observe.recorder import number
from harness.runs import Run, relative_loss

LOST = 0.05
"""Share of steps from which a loss that is not finite counts; a scale that is still searched for makes none."""

REGRESSION = 0.02
"""Relative loss of the metric from which a regression counts, beyond three standard errors of the difference."""

STALLED = 0.30
"""Stalled updates among 16-bit weights. Measured: 0.58 and more in pure bf16, up to 0.99 at small learning rates, when
every fifth step is sampled, against below 0.001 with fp32 weights."""

SUMS = 0.01
"""Relative error of a sum. One rounding to bf16 loses at most 2**-9 = 0.002 and healthy runs reach 0.004; five
roundings lose 0.01."""

EVAL_GAP = 0.02
"""Relative difference of the metric from an fp32 evaluation of the same weights. Healthy bf16 and fp16 runs of the
built-in workloads: at most 0.0002."""

FLIPS = 2.0
"""Validation samples whose flip never counts: on 50 of them one is already 0.02."""

UPDATES = 0.9
"""A run that took fewer than nine tenths of its reference's updates is worse for that reason alone."""


class Observations:
    """The observations of one run; missing ones are None, never a guess."""

    def __init__(self, run: Run, reference: Run | None = None, declared: Collection[str] = ("precision",)) -> None:
        self.run, self.reference, self.declared = run, reference, declared
        self.differences = self._differences()
        self.derived = {
            "zero_grad_excess": self._zero_grad_excess(),
            "missing_grad_excess": self._missing_grad_excess(),
            "val_regression": self._val_regression(),
            "eval_gap": self._eval_gap(),
            "eval_output_gap": self._eval_output_gap(),
            "stalled_half_share": self._stalled_half_share(),
            "scale_shift_at_resume": self._scale_shift(),
            "needless_scaled_share": self._needless_scaled_share(),
            "schedule_lead_share": self._per_attempt("schedule_lead"),
            "discarded_lead_share": self._per_attempt("discarded_leads"),
            "undeclared_differences": float(len(self.differences)) if self._both_started() else None,
        }

    def number(self, name: str) -> float | None:
        """Return a number, or None when it was not observed."""
        return self.derived[name] if name in self.derived else self.run.value(name)

    def text(self, name: str) -> str:
        """Return a text, empty when it was not observed."""
        value = self.run.summary.get(name)
        return value if isinstance(value, str) else ""

    def has(self, name: str) -> bool:
        """Tell whether a number was observed."""
        return self.number(name) is not None

    def is_told(self, name: str) -> bool:
        """Tell whether the run says something about ``name``, if only that there was nothing to observe."""
        if name not in self.run.summary:
            return False
        value = self.run.summary[name]
        return value is None or (isinstance(value, str) if name in TEXTS else number(value) is not None)

    def at_least(self, name: str, bound: float) -> bool:
        """Tell whether a number was observed and reaches the bound; NaN does not."""
        value = self.number(name)
        return value is not None and value >= bound

    @property
    def loss_is_finite(self) -> bool:
        """Whether the last logged loss is a number."""
        points = self.run.series("step", "loss")
        return bool(points) and math.isfinite(points[-1][1])

    @property
    def is_lost(self) -> bool:
        """Whether so many losses are not finite that it counts."""
        return self.at_least("nonfinite_loss_share", LOST)

    @property
    def is_metric_lost(self) -> bool:
        """Whether the validation metric is inf or NaN."""
        value = self.run.value("val_metric")
        return value is not None and not math.isfinite(value)

    @property
    def is_reference_lost(self) -> bool:
        """Whether the reference diverged, or has losses that are not finite too: then the format is not to blame."""
        reference = self.reference
        share = reference.value("nonfinite_loss_share") if reference else None
        return reference is not None and (reference.state == "diverged" or (share is not None and share > 0))

    @property
    def is_regressed(self) -> bool:
        """Whether the metric is worse than the reference's beyond noise, after about as many updates."""
        theirs = self.reference.value("optimizer_steps") if self.reference else None
        same = theirs is None or self.at_least("optimizer_steps", UPDATES * theirs)
        return same and self.at_least("val_regression", self.regression_bound)

    @property
    def is_evaluated_otherwise(self) -> bool:
        """Whether the reported metric is not what the trained weights give in fp32, beyond one standard error of it.

        Relative to a metric near zero any difference is large.
        """
        mine, fp32 = self.run.value("val_metric") or 0.0, self.run.value("val_metric_fp32") or 0.0
        error = self.run.value("val_standard_error") or 0.0
        return self.at_least("eval_gap", self.eval_gap_bound) and not abs(mine - fp32) < error

    @property
    def eval_gap_bound(self) -> float:
        """EVAL_GAP, and room for the flip of FLIPS samples."""
        return EVAL_GAP + FLIPS / max(1.0, number(self.run.start.get("num_val")) or 1.0)

    @property
    def regression_bound(self) -> float:
        """Three standard errors of the difference of two means, relative to the reference, plus REGRESSION.

        Where the standard error is unknown, as for an F1 score, one value is taken to spread as widely as it is large.
        """
        value = abs((self.reference.value("val_metric") if self.reference else None) or 0.0)
        error, num_val = self.run.value("val_standard_error"), number(self.run.start.get("num_val")) or 1.0
        if error is None or not math.isfinite(error):
            error = value / math.sqrt(max(1.0, num_val))
        return REGRESSION + (3 * math.sqrt(2) * error / value if value > 0 else 0.0)

    def evidence(self, name: str, threshold: str) -> Evidence:
        """Return an observation as evidence; ``threshold`` is the condition that the rule found it to meet."""
        value: float | str | None = self.text(name) if name in TEXTS else self.number(name)
        return Evidence(
            name=name,
            value=value if value is not None else "not observed",
            unit=unit_of(name),
            threshold=threshold,
            source=f"{self.run.folder.name}/rank{self.run.ranks[0].rank if self.run.ranks else 0}.jsonl"
            + (" against its reference" if name in TWIN else ""),
        )

    def context(self, name: str) -> Evidence:
        """Return an observation that decided nothing, but helps to read those that did."""
        return self.evidence(name, NO_BOUND)

    def place(self, *sites: str) -> str:
        """Return ``train.py:12``, the line of a user's script where the first known of these events comes from."""
        places = (self.text(site).rpartition(" at ")[2] for site in sites)
        return next((place for place in places if place not in {"", "unknown"}), "") if self.is_watched else ""

    def at(self, site: str) -> str:
        """Return `` (train.py:12)`` or nothing."""
        return f" ({self.place(site)})" if self.place(site) else ""

    @property
    def is_watched(self) -> bool:
        """Whether the run is a command of somebody else's."""
        return bool(self.run.start.get("watched"))

    def command_for(self, name: str) -> str:
        """Return the command that would produce a missing observation."""
        if self.is_watched:
            return self._watch_command(name)
        try:
            recorded = self.run.start.get("spec")
            spec = changed(RunSpec(), recorded if isinstance(recorded, dict) else {}, "recorded spec")
        except UsageError:
            return "the run has no usable start record; run it again with python train.py"
        if name in TWIN:
            return shlex.join(argv(changed(spec, {"precision": "fp32"})))
        return shlex.join(argv(changed(spec, {"observe": "full"})))

    def _watch_command(self, name: str) -> str:
        script = self.run.start.get("command") or "COMMAND"
        if name in TWIN:
            return (
                f"gpu-exam watch --out FP32 -- {script}, once with autocast and scaler off, "
                f"then gpu-exam diagnose {self.run.folder} --reference FP32"
            )
        if name == "eval_gap" and self.run.summary.get("observe") == "full":
            return "no level shows more; evaluate the trained weights in fp32 once, beside the evaluation, and compare"
        return f"gpu-exam watch --level full -- {script}"

    def _both_started(self) -> bool:
        return self.reference is not None and bool(self.run.start) and bool(self.reference.start)

    def _differences(self) -> list[str]:
        if self.reference is None or not self._both_started():
            return []
        return undeclared_differences(self.run, self.reference, self.declared)

    def _zero_grad_excess(self) -> float | None:
        """Exact zeros beyond those of the reference in the same steps: dead ReLUs are in both.

        After a skipped step the two runs have taken a different number of updates, and their dead units differ.
        """
        if self.reference is None:
            return None
        first_skip = min((step for step, _ in self.run.series("sample", "skipped")), default=math.inf)
        theirs = dict(self.reference.series("sample", "zero_grad_share"))
        mine = [(s, v) for s, v in self.run.series("sample", "zero_grad_share") if s in theirs and s < first_skip]
        return median(value - theirs[step] for step, value in mine) if mine else None

    def _missing_grad_excess(self) -> float | None:
        """Return the least share that never has a gradient here and always has one in the reference.

        Experts that are chosen at times have one in some steps only, and in other steps than those of the reference.
        """
        mine, reference = self.run.value("missing_grad_share"), self.reference
        never = reference.value("missing_grad_share") if reference else None
        at_times = reference.value("partial_grad_share") if reference else None
        return mine - never - at_times if None not in {mine, never, at_times} else None  # type: ignore[operator]

    def _val_regression(self) -> float | None:
        return self._relative_loss(self.reference.value("val_metric") if self.reference else None)

    def _eval_gap(self) -> float | None:
        loss = self._relative_loss(self.run.value("val_metric_fp32"))
        return abs(loss) if loss is not None else self._eval_output_gap()

    def _eval_output_gap(self) -> float | None:
        """Return the gap of the outputs where it decides: in a script whose metric nobody knows."""
        is_wanted = self.is_watched and self.run.value("val_metric_fp32") is None
        return self.run.value("eval_output_gap") if is_wanted else None

    def _relative_loss(self, other: float | None) -> float | None:
        return relative_loss(self.run.value("val_metric"), other, self.run.start.get("goal"))

    def _stalled_half_share(self) -> float | None:
        """Return the share, or None where a few samples disagree about it: the learning rate changes over a run.

        They may disagree where all updates arrive in the long run: updates that are rounded at random stall at times.
        """
        share, most = self.run.value("stalled_half_share"), self.run.value("stalled_half_largest") or 0.0
        between = self.run.value("stalled_half_between")
        is_settled = self.run.summary.get("observe") == "full" or (between is not None and between < STALLED)
        return None if share is not None and share < STALLED <= most and not is_settled else share

    def _scale_shift(self) -> float | None:
        """Return the largest jump of the scale in octaves; None when a resume is known of but not its scales."""
        spec = self.run.start.get("spec")
        planned = isinstance(spec, dict) and bool(spec.get("restart_at") or spec.get("resume"))
        shifts = []
        for resume in self.run.ranks[0].of("resume") if self.run.ranks else ():
            saved, live = number(resume.get("saved_scale")), number(resume.get("live_scale"))
            if saved is None or live is None or not 0 < min(saved, live) <= max(saved, live) < math.inf:
                return None
            shifts.append(abs(math.log2(live) - math.log2(saved)))
        return max(shifts) if shifts else None if planned else 0.0

    def _needless_scaled_share(self) -> float | None:
        share = self._per_attempt("scaled_attempts")
        formats = self.text("train_formats")
        if share is None or not formats:
            return share if share == 0 else None
        return 0.0 if "float16" in formats.split(",") else share

    def _per_attempt(self, name: str) -> float | None:
        attempts, count = self.run.value("attempted_steps"), self.run.value(name)
        return count / attempts if attempts and count is not None else None


TWIN = ("zero_grad_excess", "missing_grad_excess", "val_regression", "undeclared_differences")
"""Observations that need a reference run of the same spec in fp32."""
