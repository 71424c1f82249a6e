"""What happens from a spec to a run folder? Device, workload, parts, loop, and a clear last record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.config import RunOptions, RunSpec, changed, public_fields
from harness.devices.base import Device
from harness.devices.select import check_count, open_device, resolve_kind
from harness.engine.build import Parts, build
from harness.engine.ending import EXIT_CODES, alarm, explained_loss, state_of
from harness.engine.fp32 import InFp32, fp32_copy
from harness.engine.parallel import Ranks, bare, join, leave
from harness.engine.precision import Autocast, set_matmul_format
from harness.engine.shapes import model_shape, sample_shape
from harness.engine.train import Loop
from harness.engine.validation import Validation
from harness.engine.workload import data_hash, explained, load_workload, source_hash
from harness.errors import HarnessError, UsageError
from harness.faults.base import injection
from harness.observe.environment import fingerprint
from harness.observe.recorder import Recorder, complain
from harness.observe.standard import Watch


def execute(spec: RunSpec, options: RunOptions, folder: Path, ranks: Ranks) -> int:
    """Run one rank of a spec; return the exit code. The folder holds everything, however it ends."""
    recorder = Recorder(folder, ranks.rank)
    watch = Watch(spec.observe)
    failure: BaseException | None = None
    try:
        with alarm(options.time_limit_s):
            _train(spec, options, folder, ranks, recorder, watch)
    except BaseException as error:  # the process boundary: however a run ends, its last record says how
        failure = explained_loss(error)
    watch.stop()
    state, message = _told(failure)
    try:
        recorder.write("end", state=state, message=message, summary=watch.result | watch.summary())
        told = ranks.rank == 0
    except HarnessError as error:  # the disk is full: every rank says on stderr what its record would have said
        state, message = (state, message) if failure else ("error", str(error))
        told = True
    recorder.close()
    if failure and state == "error" and not isinstance(failure, HarnessError):
        raise failure
    if message and told:
        complain(f"{state}: {message}")
    return EXIT_CODES[state]


def _told(failure: BaseException | None) -> tuple[str, str]:
    if failure is None:
        return "completed", ""
    if isinstance(failure, KeyboardInterrupt):
        return "interrupted", "stopped by Ctrl-C or SIGTERM"
    return state_of(failure), " ".join(str(failure).split())[:1000] or type(failure).__name__


def _train(spec: RunSpec, options: RunOptions, folder: Path, ranks: Ranks, recorder: Recorder, watch: Watch) -> None:
    spec = injection(spec.fault).apply("spec", spec, spec)
    kind = resolve_kind(spec.device)
    check_count(kind, spec.devices)
    spec = changed(spec, {"device": kind})
    device = open_device(kind, ranks.local_rank)
    refusal = device.refuses(spec.precision)
    if refusal:
        raise UsageError(refusal)
    set_matmul_format(spec.precision)
    join(ranks, device.backend)
    with explained(spec.workload):
        workload = load_workload(spec.workload, spec.size, spec.seed)
        about = _shape(workload) | {"data_hash": data_hash(workload), "workload_source": source_hash(spec.workload)}
    recorder.write("start", **_start(spec, ranks, device), **about)
    if spec.memory_limit_mb:
        device.limit_memory(spec.memory_limit_mb * 2**20)
    watch.start()
    device.start_peak()
    loop = Loop(spec, options, device, recorder, watch)
    with explained(spec.workload):
        parts = _segments(loop, workload, ranks, folder)
    watch.result = _result(loop, parts) | _reference_metric(spec, parts, device, ranks)
    recorder.write("scaling", devices=spec.devices, samples_per_s=watch.result["samples_per_s"])
    leave()


def _segments(loop: Loop, workload: Any, ranks: Ranks, folder: Path) -> Parts:
    """Run from the start or a checkpoint to the end; ``restart_at`` breaks the run in two, as a new process would."""
    spec = loop.spec
    parts = _fresh(loop, workload, ranks)
    if spec.resume:
        loop.restore(parts, Path(spec.resume))
    if spec.restart_at:
        loop.run(parts, spec.restart_at, folder)
        path = folder / "restart.pt"
        loop.save(parts, path)
        parts = _fresh(loop, load_workload(spec.workload, spec.size, spec.seed), ranks)
        loop.restore(parts, path)
    loop.run(parts, spec.max_steps, folder)
    return parts


def _fresh(loop: Loop, workload: Any, ranks: Ranks) -> Parts:
    parts = build(loop.spec, workload, loop.device, ranks)
    loop.watch.follow(bare(parts.model))
    return parts


def _result(loop: Loop, parts: Parts) -> dict[str, Any]:
    """Return what is known only at the end."""
    per_s = loop.samples_per_step / loop.stopwatch.step_time_s
    return {
        "loss": loop.loss,
        "val_metric": loop.val_metric,
        "val_standard_error": parts.validation.standard_error,
        "step_time_s": loop.stopwatch.step_time_s,
        "samples_per_s": per_s,
        "throughput": per_s * max(1, parts.workload.tokens_per_sample),
        "unit": parts.workload.unit,
        "peak_memory_bytes": loop.device.peak_bytes(),
        "steps": loop.step,
        "samples_seen": parts.batches.drawn * loop.spec.batch_size * loop.spec.devices,
    }


def _reference_metric(spec: RunSpec, parts: Parts, device: Device, ranks: Ranks) -> dict[str, Any]:
    """Evaluate the final weights once more in fp32, summed in float64: what the reported metric must agree with."""
    if spec.observe != "full":
        return {}
    autocast = Autocast(device.torch_device.type, None)
    plain = Validation(parts.workload, device.torch_device, autocast, ranks, spec.batch_size)
    try:
        with InFp32():
            return {"val_metric_fp32": plain(fp32_copy(bare(parts.model)))}
    except Exception as error:  # a user's model may insist on a format; the run itself is complete without this number
        return {"val_metric_fp32": None, "val_metric_fp32_note": f"{type(error).__name__}: {error}"[:300]}


def _start(spec: RunSpec, ranks: Ranks, device: Device) -> dict[str, Any]:
    return {
        "spec": public_fields(spec),
        "rank": ranks.rank,
        "world_size": ranks.world_size,
        "device_kind": device.kind,
        "device_name": device.name(),
        "environment": fingerprint(),
    }


def _shape(workload: Any) -> dict[str, Any]:
    parameters = list(workload.model.parameters())
    return {
        "model_shape": model_shape(workload),
        "sample_shape": sample_shape(workload),
        "num_parameters": sum(p.numel() for p in parameters),
        "num_trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "num_train": len(workload.train_data),
        "num_val": len(workload.val_data),
        "metric": workload.metric_name,
        "goal": workload.metric_goal,
    }
