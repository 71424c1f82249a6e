"""One writer for each format of a log, from the same curve; those of tables and JSON have a file of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.logs import tables
from tests.logs.curves import Curve

Writer = Callable[[Curve], str]

BEGIN = datetime(2025, 3, 4, 10, 0, 0, tzinfo=UTC)


def stamp(index: int) -> str:
    """Return the time of a line."""
    return (BEGIN + timedelta(seconds=3 * index)).strftime("%Y-%m-%d %H:%M:%S,123")


def huggingface(curve: Curve) -> str:
    """Dictionaries as the trainer prints them, between the states of a bar."""
    lines = []
    for i, loss in enumerate(curve.loss):
        lines.append(f"\r {i}%|###       | {i * 10}/600 [00:10<01:10,  8.5it/s]")
        lines.append(
            str(
                {
                    "loss": round(loss, 4),
                    "grad_norm": curve.grad_norm[i],
                    "learning_rate": 5e-05,
                    "epoch": round(i / 6, 2),
                }
            )
        )
        if i in curve.val:
            lines.append(
                str(
                    {
                        "eval_loss": curve.val[i],
                        "eval_runtime": 12.1,
                        "eval_samples_per_second": 80.1,
                        "epoch": round(i / 6, 2),
                    }
                )
            )
    return "\n".join(lines)


def nanogpt(curve: Curve) -> str:
    """Lines of nanoGPT."""
    lines = ["tokens per iteration will be: 491,520", "number of parameters: 123.59M"]
    for i, loss in enumerate(curve.loss):
        lines.append(f"iter {i * 10}: loss {loss:.4f}, time {curve.step_time[i] * 1000:.2f}ms, mfu 31.20%")
        if i in curve.val:
            lines.append(f"step {i * 10}: train loss {loss:.4f}, val loss {curve.val[i]:.4f}")
    return "\n".join(lines)


def nanochat(curve: Curve) -> str:
    """Lines of nanochat."""
    lines = []
    for i, loss in enumerate(curve.loss):
        lines.append(
            f"step {i:05d}/00600 (0.10%) | loss: {loss:.6f} | lrm: 1.00 | dt: {curve.step_time[i] * 1000:.2f}ms | "
            f"tok/sec: {524288 / curve.step_time[i]:,.0f} | mfu: 48.1 | total time: {i / 10:.2f}m"
        )
        if i in curve.val:
            lines.append(f"Step {i:05d} | Validation bpb: {curve.val[i]:.4f}")
    return "\n".join(lines)


def torchtitan(curve: Curve) -> str:
    """Lines of torchtitan, from rank 0, in colour."""
    return "\n".join(
        f"[rank0]:[titan] {stamp(i)} - root - INFO - \x1b[31mstep: {i + 1:2}  \x1b[32mloss: {loss:8.5f}  "
        "\x1b[38;2;1;2;3mgrad_norm: "
        f"{curve.grad_norm[i]:7.4f}  \x1b[36mmemory:  9.46GiB(64.99%)  \x1b[34mtps: "
        f"{3652 / curve.step_time[i]:,.0f}  tflops: 0.52  mfu: 0.17%\x1b[39m"
        for i, loss in enumerate(curve.loss)
    )


def lightning_bar(curve: Curve) -> str:
    """A tqdm bar that overwrites itself, with the loss behind it."""
    text, val = "", ""
    for i, loss in enumerate(curve.loss):
        val = f", val_loss={curve.val[i]:.3f}" if i in curve.val else val
        bar = f"{i % 10 * 10}%|#    | {i % 10 + 1}/10 [00:0{i % 10}<00:09, {1 / curve.step_time[i]:.2f}it/s"
        text += f"\rEpoch {i // 10}:  {bar}, loss={loss:.3f}, v_num=3{val}]"
    return text + "\n"


def deepspeed(curve: Curve) -> str:
    """Lines of DeepSpeed: the step, its times and the loss in lines of their own."""
    lines = []
    for i, loss in enumerate(curve.loss):
        begin = f"[{stamp(i)}] [INFO]"
        rate = f"RunningAvgSamplesPerSec=99.1, CurrSamplesPerSec={64 / curve.step_time[i]}, MemAllocated=0.06GB"
        lines += [
            f"{begin} [logging.py:96:log_dist] [Rank 0] step={i * 10}, skipped=2, lr=[0.0001], mom=[(0.9, 0.999)]",
            f"{begin} [timer.py:215:stop] epoch=0/micro_step={i * 10}/global_step={i * 10}, {rate}",
            f"2025-03-04 10:00:00.123 | INFO     | __main__:log:53 - [Rank 0] Loss: {loss:.4f}",
        ]
    return "\n".join(lines)


def megatron(curve: Curve) -> str:
    """Lines of Megatron-LM."""
    return "\n".join(
        f" iteration {i * 10:8d}/     600 | consumed samples: {i * 640:12d} | elapsed time per iteration (ms): "
        f"{curve.step_time[i] * 1000:.1f} | "
        f"learning rate: 1.500E-04 | global batch size:    64 | lm loss: {loss:.6E} | loss scale: "
        f"{curve.scale[i]:.1f} | grad norm: {curve.grad_norm[i]:.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
        for i, loss in enumerate(curve.loss)
    )


def fairseq(curve: Curve) -> str:
    """Lines of fairseq: training and validation of each epoch."""
    lines = []
    for i, loss in enumerate(curve.loss):
        ppl = 2 ** min(loss, 30) if math.isfinite(loss) else loss
        lines.append(
            f"{stamp(i)} | INFO | train | epoch {i + 1:03d} | loss {loss:.3f} | ppl {ppl:.2f} | wps 3120.3 | ups 3.2 | "
            f"num_updates {i * 100} | lr 1e-05 | gnorm {curve.grad_norm[i]:.3f} | loss_scale 128 | wall 1{i:03d}"
        )
        if i in curve.val:
            lines.append(
                f"{stamp(i)} | INFO | valid | epoch {i + 1:03d} | valid on 'valid' subset | loss "
                f"{curve.val[i]:.3f} | ppl 20.1 | wps 91201.1 | num_updates {i * 100} | best_loss 4.5"
            )
    return "\n".join(lines)


def timm(curve: Curve) -> str:
    """Lines of timm: the value and its mean in parentheses; an evaluation prints several batches."""
    lines = []
    for i, loss in enumerate(curve.loss):
        lines.append(
            f"Train: {i // 6} [{i % 6 * 200:4d}/1251 ({i % 6 * 16:3d}%)]  Loss: {loss:.3g} ({loss:.3g})  Time: "
            f"{curve.step_time[i]:.3f}s, 305.01/s  "
            f"({curve.step_time[i]:.3f}s,  301.20/s)  LR: 1.000e-04  Data: {curve.data_time[i]:.3f} "
            f"({curve.data_time[i]:.3f})"
        )
        if i in curve.val:
            lines += [_timm_test(batch, curve.val[i]) for batch in (0, 10, 20)]
    return "\n".join(lines)


def _timm_test(batch: int, mean: float) -> str:
    loss = f"{mean * (0.8 + batch / 100):.4f} ({mean:.4f})"
    return f"Test: [{batch:4d}/20]  Time: 0.312 (0.402)  Loss:  {loss}  Acc@1: 70.100 (71.200)"


def mmdetection(curve: Curve) -> str:
    """Lines of mmengine."""
    lines = []
    for i, loss in enumerate(curve.loss):
        lines.append(
            f"2025/03/04 10:{i:02d}:53 - mmengine - INFO - Epoch(train)  "
            f"[{i // 6 + 1}][{i % 6 * 50 + 50:4d}/300]  lr: 2.2633e-05  eta: 1 day, 23:47:56  "
            f"time: {curve.step_time[i]:.4f}  data_time: {curve.data_time[i]:.4f}  memory: 16632  loss: "
            f"{loss:.4f}  loss_cls: {loss * 0.4:.4f}  loss_bbox: {loss * 0.6:.4f}"
        )
        if i in curve.val:
            lines.append(
                f"2025/03/04 10:{i:02d}:59 - mmengine - INFO - Epoch(val) [{i // 6 + 1}][500/500]  loss: "
                f"{curve.val[i]:.4f}  data_time: 0.4  time: 0.5"
            )
    return "\n".join(lines)


def detectron(curve: Curve) -> str:
    """Lines of detectron2."""
    return "\n".join(
        f"[03/04 10:{i:02d}:33 d2.utils.events]:  eta: 1:22:10  iter: {i * 20 + 19}  total_loss: {loss:.4g}  "
        f"loss_cls: {loss * 0.4:.4g}  loss_box_reg: {loss * 0.6:.4g}  "
        f"time: {curve.step_time[i]:.4f}  last_time: 0.51  data_time: {curve.data_time[i]:.4f}  last_data_time: "
        "0.01   lr: 0.0002  max_mem: 5000M"
        for i, loss in enumerate(curve.loss)
    )


def imagenet(curve: Curve) -> str:
    """Lines of the ImageNet example of PyTorch."""
    return "\n".join(
        f"Epoch: [{i // 6}][{i % 6 * 200:4d}/1251]\tTime {curve.step_time[i]:6.3f} "
        f"({curve.step_time[i]:6.3f})\tData {curve.data_time[i]:6.3f} ({curve.data_time[i]:6.3f})\t"
        f"Loss {loss:.4e} ({loss:.4e})\tAcc@1  15.62 (  9.30)\tAcc@5  38.28 ( 24.57)"
        for i, loss in enumerate(curve.loss)
    )


def keras_lines(curve: Curve) -> str:
    """Hand-written lines of Keras kind."""
    val = next(iter(curve.val.values()), 1.0)
    lines = []
    for i, loss in enumerate(curve.loss):
        val = curve.val.get(i, val)
        speed = f"3s {curve.step_time[i] * 10:.0f}ms/step"
        lines += [f"Epoch {i + 1}/60", f"469/469 [=====] - {speed} - loss: {loss:.4f} - val_loss: {val:.4f}"]
    return "\n".join(lines)


def words(curve: Curve) -> str:
    """Hand-written lines with spaces."""
    val = next(iter(curve.val.values()), 1.0)
    lines = []
    for i, loss in enumerate(curve.loss):
        val = curve.val.get(i, val)
        lines.append(f"Epoch {i + 1} Train Loss {loss:.4f} Val Loss {val:.4f}")
    return "\n".join(lines)


def brackets(curve: Curve) -> str:
    """Hand-written lines with a counter in brackets."""
    return "\n".join(f"[{i + 1}/500] loss {loss:.4f}" for i, loss in enumerate(curve.loss))


def key_values(curve: Curve) -> str:
    """Lines of any script."""
    lines = []
    for i, loss in enumerate(curve.loss):
        val = f" val_loss={curve.val[i]:.4f}" if i in curve.val else ""
        lines.append(
            f"INFO:root:step={i} loss={loss:.5f} grad_norm={curve.grad_norm[i]:.3f} "
            f"step_time={curve.step_time[i]:.3f}s{val}"
        )
    return "\n".join(lines)


EVERY: dict[str, Writer] = {
    writer.__name__: writer
    for writer in (
        tables.jsonl,
        tables.lightning_csv,
        tables.ultralytics,
        tables.trainer_state,
        tables.keras_csv,
        tables.fastai,
        tables.markdown,
        huggingface,
        nanogpt,
        nanochat,
        torchtitan,
        lightning_bar,
        deepspeed,
        megatron,
        fairseq,
        timm,
        mmdetection,
        detectron,
        imagenet,
        keras_lines,
        words,
        brackets,
        key_values,
    )
}

WITHOUT_VALIDATION = {"torchtitan", "deepspeed", "megatron", "detectron", "imagenet", "brackets"}
"""Formats that print no validation loss."""
