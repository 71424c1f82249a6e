"""Three incidents as they could have been. The numbers are made up."""

from __future__ import annotations

import math
import random
from typing import Any

from harness.diagnose.finding import Diagnosis, Evidence, Finding, Missing
from harness.report.model import Incident, RunView, Series

TRAIN = "python train.py --workload digits_cnn --seed 42 --max-steps 400 --device cpu"

SCALING = ("scenario_a", "no_loss_scaling", "digits_cnn", "cpu")
SCHEDULER = ("scenario_a", "scheduler_on_skipped_step", "digits_cnn", "cpu")
BUCKETS = ("scenario_b", "small_buckets", "char_transformer", "emulated")
RETAINED = ("scenario_c", "graph_retained", "digits_cnn", "cpu")


def decay(start: float, floor: float, rate: float, seed: int, steps: int = 400) -> Series:
    """Return a noisy exponential, one point every two steps."""
    noise = random.Random(seed)
    return [
        (step, floor + (start - floor) * math.exp(-step / rate) * (1 + 0.08 * noise.gauss(0, 1)))
        for step in range(0, steps, 2)
    ]


def rise(top: float, rate: float, steps: int = 400) -> Series:
    """Return a validation metric at every fiftieth step."""
    return [(step, top - (top - 0.1) * math.exp(-step / rate)) for step in range(0, steps + 1, 50)]


def run(role: str, label: str, precision: str, metric: float | None, speed: float | None, **more: Any) -> RunView:
    """Return one run with plausible defaults."""
    fields: dict[str, Any] = {
        "command": f"{TRAIN} --precision {precision}",
        "state": "completed",
        "device": "cpu",
        "metric_name": "accuracy",
        "step_time_s": None if not speed else 64 / speed,
        "peak_memory_bytes": 412_000_000,
    }
    return RunView(role=role, label=label, precision=precision, val_metric=metric, throughput=speed, **(fields | more))


def scaling_incident() -> Incident:
    """Return a run that is faster and worse, diagnosed with three observations."""
    return Incident(
        scenario=SCALING[0],
        cause=SCALING[1],
        category="precision",
        workload=SCALING[2],
        device=SCALING[3],
        title="fp16 without loss scaling loses small gradients",
        story="A colleague switched the training to fp16. It runs 1.6 times faster, the loss still falls, "
        "and validation accuracy ends twelve points below the fp32 run. Nobody changed the data or the seed.",
        runs=[
            run("reference", "fp32 baseline", "fp32", 0.962, 3110.0, loss=decay(2.3, 0.11, 60, 1), val=rise(0.962, 60)),
            run("control", "fp16, healthy", "fp16", 0.959, 5010.0, loss=decay(2.3, 0.12, 62, 2), val=rise(0.959, 62)),
            run(
                "suspect", "fp16, as reported", "fp16", 0.841, 5080.0, loss=decay(2.3, 0.55, 90, 3), val=rise(0.841, 90)
            ),
            run(
                "confirm",
                "initial scale 65536",
                "fp16",
                0.957,
                5004.0,
                loss=decay(2.3, 0.13, 63, 4),
                val=rise(0.957, 63),
            ),
            run("remedy", "GradScaler", "fp16", 0.960, 4990.0, loss=decay(2.3, 0.12, 61, 5), val=rise(0.96, 61)),
            run(
                "cheat",
                "half the steps",
                "fp16",
                0.80,
                9900.0,
                loss=decay(2.3, 0.6, 95, 6, 200),
                val=rise(0.8, 90, 200),
            ),
        ],
        diagnosis=Diagnosis(
            status="diagnosed",
            findings=[
                Finding(
                    category="precision",
                    cause="no_loss_scaling",
                    confidence=0.93,
                    summary="70 % of the gradient values are zero in fp16 and not in an fp32 shadow of the same step: "
                    "they are below the smallest number that fp16 can hold.",
                    evidence=[
                        Evidence(
                            name="zero_grad_excess",
                            value=0.7031,
                            unit="share",
                            threshold="> 0.30",
                            source="runs/suspect/rank0.jsonl, step 50 to 400",
                        ),
                        Evidence(
                            name="loss_scale",
                            value=1.0,
                            unit="",
                            threshold="== 1",
                            source="runs/suspect/rank0.jsonl, step 1",
                        ),
                        Evidence(
                            name="grad_cosine",
                            value=0.83,
                            unit="",
                            threshold="< 0.95",
                            source="runs/suspect/rank0.jsonl, step 400",
                        ),
                    ],
                    confirm="Run the same spec with an initial scale of 65536; the excess of zeros must vanish.",
                    action="Use torch.amp.GradScaler around backward and step, or bf16, which needs no scaling.",
                )
            ],
            checked=["no_loss_scaling", "scheduler_on_skipped_step", "clip_before_unscale"],
        ),
    )


def scheduler_incident() -> Incident:
    """Return a run that diverges, with a loss scale and not enough evidence."""
    scale: Series = [(s, 2.0 ** max(8, 24 - s // 4)) for s in range(0, 400, 2)]
    diverged: Series = [(s, v if s < 140 else None) for s, v in decay(2.3, 0.4, 80, 9)]
    return Incident(
        scenario=SCHEDULER[0],
        cause=SCHEDULER[1],
        category="precision",
        workload=SCHEDULER[2],
        device=SCHEDULER[3],
        title="The scheduler advances on steps that the scaler skipped",
        story="The learning rate is at its end long before the training is.",
        runs=[
            run("reference", "fp32 baseline", "fp32", 0.962, 3110.0, loss=decay(2.3, 0.11, 60, 1), val=rise(0.962, 60)),
            run(
                "suspect",
                "fp16, as reported",
                "fp16",
                None,
                5055.0,
                state="diverged",
                loss=diverged,
                loss_scale=scale,
                skipped_steps=list(range(4, 64, 4)),
            ),
            run(
                "remedy",
                "step after real steps",
                "fp16",
                0.956,
                5001.0,
                loss=decay(2.3, 0.12, 62, 8),
                val=rise(0.956, 62),
                loss_scale=scale[20:],
                skipped_steps=[44, 48],
            ),
        ],
        diagnosis=Diagnosis(
            status="not_enough_evidence",
            missing=[
                Missing(
                    observation="scheduler_steps",
                    needed_for="scheduler_on_skipped_step",
                    command=f"{TRAIN} --precision fp16 --observe full",
                )
            ],
            checked=["no_loss_scaling"],
        ),
    )


def buckets_incident() -> Incident:
    """Return an emulated run without any series."""
    common = {"device": "emulated", "metric_name": "loss", "metric_goal": "min", "unit": "tokens/s"}
    return Incident(
        scenario=BUCKETS[0],
        cause=BUCKETS[1],
        category="communication",
        workload=BUCKETS[2],
        device=BUCKETS[3],
        title="Gradients travel in many small messages",
        story="Eight devices train only 3.1 times as fast as one.",
        runs=[
            run("reference", "1 device", "bf16", 1.91, 12_100.0, **common),
            run("suspect", "8 devices", "bf16", 1.92, 37_600.0, **common),
            run("remedy", "25 MB buckets", "bf16", 1.92, 81_300.0, **common),
        ],
        diagnosis=Diagnosis(status="healthy", checked=["small_buckets"]),
    )
