"""What does the name of an observation mean, and in which unit is its number?"""

from __future__ import annotations

SHARE = "share"

NUMBERS: dict[str, tuple[str, str]] = {
    "activation_range_used": ("largest activation against the largest number of its format", "of the maximum"),
    "attempted_steps": ("updates that were attempted", "steps"),
    "clips_before_unscale_share": ("clips that saw gradients still multiplied by the loss scale", SHARE),
    "discarded_lead_share": ("schedule steps after gradients that were thrown away, of the updates", SHARE),
    "discarded_leads": ("schedule steps after gradients that were thrown away", "times"),
    "discarded_share_late": ("of the second half, backward passes whose inf or NaN gradients were thrown away", SHARE),
    "eval_gap": ("the reported metric against an fp32 evaluation of the same weights", SHARE),
    "eval_op_bits": ("fewest mantissa bits of an operation in evaluation", "bits"),
    "eval_output_gap": ("outputs in evaluation against those of the trained weights in fp32", "of their spread"),
    "eval_output_bits": ("fewest mantissa bits of a module's output in evaluation", "bits"),
    "eval_weight_bits": ("fewest mantissa bits of a weight in evaluation", "bits"),
    "final_loss_scale": ("the loss scale at the end", "factor"),
    "fixed_scaled_norm": ("the size to which gradients were brought while still multiplied by the scale", "size"),
    "flushed_moment_share": ("moments of Adam whose square is below the smallest number of fp16", SHARE),
    "fp16_floor_share": ("gradients in the last bits that fp16 has above zero", SHARE),
    "fresh_scaler_resumes": ("optimizers restored under a loss scaler that was not", "times"),
    "grad_elements": ("gradients that a sample looks at", "elements"),
    "grad_norm_median": ("the gradient norm that the optimizer gets, median", "2-norm"),
    "half_state_share": ("optimizer state in a 16-bit format", SHARE),
    "half_weight_share": ("trainable weights in a 16-bit format", SHARE),
    "lost_backward_share": ("steps whose gradients were inf or NaN right after the backward pass", SHARE),
    "lost_weights_step": ("first step that began with weights that are not finite", "step"),
    "missing_grad_excess": ("weights without a gradient that have one in fp32", SHARE),
    "missing_grad_share": ("trainable weights that never had a gradient", SHARE),
    "needless_scaled_share": ("steps under a loss scaler without anything in fp16", SHARE),
    "nonfinite_loss_first": ("the first backward pass that began at inf or NaN", "backward pass"),
    "nonfinite_loss_share": ("losses that are inf or NaN", SHARE),
    "overflow_step": ("first step whose activations overflowed", "step"),
    "reduction_error": ("sums in 16 bits against the same sums in float64, relative", SHARE),
    "running_sum_error": ("numbers added up one by one in 16 bits against their exact sum, relative", SHARE),
    "scale_backoffs": ("times that the loss scale was lowered", "times"),
    "scale_shift_at_resume": ("the loss scale after a resume against the saved one", "octaves"),
    "rounded_weight_share": ("fp32 weights that begin each step as numbers of a 16-bit format", SHARE),
    "replaced_scalers": ("loss scalers that took over an optimizer at another scale", "times"),
    "scaled_attempts": ("steps under a live loss scaler", "steps"),
    "schedule_lead": ("schedule steps without an update since the last one", "times"),
    "schedule_lead_share": ("the same, of the updates that were attempted", SHARE),
    "skipped_share_late": ("skipped steps in the second half of the run", SHARE),
    "skipped_steps": ("steps that the scaler skipped", "steps"),
    "second_unscale_share": ("steps whose gradients were divided by the loss scale once more", SHARE),
    "shared_unscale_share": ("weights that several optimizers of one step unscale", SHARE),
    "stalled_half_between": ("the same over many steps", SHARE),
    "stalled_half_share": ("16-bit weights with a gradient that a step leaves bitwise the same", SHARE),
    "stalled_rounded_between": ("the same over many steps", SHARE),
    "stalled_rounded_share": ("updates of such weights that rounding takes back", SHARE),
    "step_norm_ratio": ("the norm at the step against what unscaling and clipping leave", "ratio"),
    "train_op_bits": ("fewest mantissa bits of an operation in training", "bits"),
    "train_output_bits": ("fewest mantissa bits of a module's output in training", "bits"),
    "train_weight_bits": ("fewest mantissa bits of a weight in training", "bits"),
    "undeclared_differences": ("parts that differ between the two runs and should not", "parts"),
    "unreached_weight_share": ("weights of layers that ran but never had a gradient", SHARE),
    "val_metric": ("the validation metric", "metric"),
    "val_regression": ("the validation metric against the fp32 reference, worse by", SHARE),
    "zero_grad_excess": ("exact zeros among the gradients beyond those of the fp32 reference", SHARE),
    "zero_grad_share": ("exact zeros among the gradients", SHARE),
}
"""Name -> what it means, unit. A share is from 0 to 1."""

TEXTS: dict[str, str] = {
    "backward_site": "the line that starts the backward pass",
    "clip_site": "the line of the clip",
    "coarser_eval_module": "a module that is evaluated in fewer bits than it was trained in",
    "infinite_module": "the first module whose output is infinite although the losses are finite",
    "overflow_module": "the first module whose output overflowed",
    "overflow_site": "the line where it overflowed",
    "reduction_site": "the line of the sum",
    "running_sum_site": "the line that adds",
    "scaler_site": "the line of scaler.step",
    "schedule_site": "the line of scheduler.step",
    "step_site": "the line of optimizer.step",
    "train_formats": "the number formats in training",
    "unscale_site": "the line of scaler.unscale_",
    "weight_dtypes": "the formats of the weights",
}


def unit_of(name: str) -> str:
    """Return the unit of an observation; a text has none."""
    return "" if name in TEXTS else NUMBERS.get(name, ("", SHARE))[1]


def meaning(name: str) -> str:
    """Return what an observation is, in words; its name where it has none."""
    return TEXTS.get(name) or NUMBERS.get(name, (name, ""))[0]
