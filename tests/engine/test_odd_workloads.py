"""A healthy workload of an unusual kind trains to its end: nothing about it is a mistake."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from harness.runs import Run
from tests.running import Launcher, losses

SPARSE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 2, sparse=SPARSE)

    def forward(self, tokens):
        return self.embed(tokens).sum(1)

def words(n):
    tokens = torch.randint(0, 16, (n, 4), generator=torch.Generator().manual_seed(0))
    return TensorPairs(tokens, (tokens.sum(1) > 30).long())

def make():
    return parts(model=Model(), train_data=words(256), val_data=words(64))
"""

NORMED = """
def make():
    layers = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)
    return parts(model=nn.Sequential(*layers), val_data=data(VAL))
"""

FROZEN = """
def make():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    model[0].requires_grad_(False)
    return parts(model=model)
"""

UNUSED = """
class Model(nn.Linear):
    def __init__(self):
        super().__init__(8, 2)
        self.unused = nn.Linear(3, 3)

def make():
    return parts(model=Model())
"""

INPUTS = """
from typing import NamedTuple

class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor

class Mine(Rows):
    def item(self, inputs, target, index):
        return ITEM, target

class Model(nn.Linear):
    def forward(self, ARGUMENTS):
        return super().forward(SUM)

def make():
    return parts(model=Model(8, 2), train_data=Mine(), val_data=Mine(40))
"""


def completed(run: Run) -> Run:
    """Return the run after making sure that it ended well, with finite numbers, and that no observer gave up."""
    assert run.state == "completed", run.message
    assert all(map(math.isfinite, losses(run)))
    assert run.summary["observer_notes"] == []
    return run


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_sparse_gradients_train_as_dense_ones(launched: Launcher, optimizer: str, precision: str) -> None:
    """An embedding with sparse gradients, clipped and scaled, gives the losses of a dense one."""
    runs = [
        completed(launched.workload(SPARSE.replace("SPARSE)", f"{sparse})"), optimizer=optimizer, precision=precision))
        for sparse in (True, False)
    ]
    assert losses(runs[0]) == losses(runs[1])


def test_sparse_gradients_train_on_two_ranks(launched: Launcher) -> None:
    """With weight decay, a restart and every observer."""
    code = SPARSE.replace("SPARSE)", "True)")
    completed(launched.workload(code, devices=2, weight_decay=0.1, restart_at=5, observe="full"))


@pytest.mark.parametrize("devices", [1, 2])
def test_frozen_parts_stay_as_they_are(launched: Launcher, devices: int) -> None:
    """Only what is trainable is counted and trained."""
    run = completed(launched.workload(FROZEN, devices=devices, observe="full"))
    assert (run.start["num_parameters"], run.start["num_trainable"]) == (90, 18)


def test_parameters_that_the_loss_never_reaches_train_alone(launched: Launcher) -> None:
    """On one rank nobody waits for their gradients."""
    completed(launched.workload(UNUSED, observe="full"))


@pytest.mark.parametrize("factor", ["1e-20", "1e-38", "1e20", "1e30"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_tiny_and_huge_gradients_train(launched: Launcher, factor: str, precision: str) -> None:
    """A loss in any unit is a loss."""
    code = f"def make():\n    return parts(loss=lambda o, t: F.cross_entropy(o.float(), t) * {factor})\n"
    completed(launched.workload(code, precision=precision, observe="full"))


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("devices", [1, 2])
def test_normalisation_and_dropout_train(launched: Launcher, devices: int, precision: str) -> None:
    """Buffers and random masks, in every precision, equal when repeated."""
    code = NORMED.replace("VAL", "64")
    runs = [completed(launched.workload(code, devices=devices, precision=precision)) for _ in range(2)]
    assert losses(runs[0]) == losses(runs[1])
    assert runs[0].value("val_metric") == runs[1].value("val_metric")


def test_ranks_with_different_numbers_of_validation_batches_do_not_wait_for_each_other(launched: Launcher) -> None:
    """Two on one rank and one, or none at all, on the other: no buffers are exchanged in between."""
    for count in ("513", "1"):
        completed(launched.workload(NORMED.replace("VAL", count), devices=2, val_interval=4))


def test_ranks_validate_the_model_that_is_saved(launched: Launcher) -> None:
    """Each rank has running statistics of its own; all evaluate with those of rank 0."""
    code = "def make():\n    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))\n"
    code += "    return parts(model=model, loss=lambda o, t: o.square().mean(), metric=lambda o, t: o[:, 0])\n"
    run = completed(launched.workload(code, devices=2, checkpoint_interval=12))
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
    model.load_state_dict(torch.load(run.folder / "step12.pt")["model"])
    inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    assert run.value("val_metric") == pytest.approx(model(inputs)[:, 0].mean().item(), abs=1e-6)


def test_validation_does_not_move_the_dropout(launched: Launcher) -> None:
    """How often a run is validated is no part of its numbers."""
    code = NORMED.replace("VAL", "64")
    runs = [completed(launched.workload(code, val_interval=interval)) for interval in (0, 3)]
    assert losses(runs[0]) == losses(runs[1])


@pytest.mark.parametrize(
    ("item", "arguments", "total"),
    [
        ("(inputs, inputs)", "pair", "pair[0] + pair[1]"),
        ("[inputs, inputs]", "pair", "pair[0] + pair[1]"),
        ("Pair(inputs, inputs)", "pair", "pair.first + pair.second"),
        ("{'a': inputs, 'b': inputs}", "a, b", "a + b"),
        ("{'a': (inputs, {'c': inputs})}", "a", "a[0] + a[1]['c']"),
    ],
)
def test_several_inputs_reach_the_model(launched: Launcher, item: str, arguments: str, total: str) -> None:
    """A tuple, list or named tuple as one argument, a dict as keywords; nested as one likes."""
    code = INPUTS.replace("ITEM", item).replace("ARGUMENTS", arguments).replace("SUM", total)
    assert len(losses(completed(launched.workload(code)))) == 12


@pytest.mark.parametrize("num_workers", [0, 2])
def test_ordinary_dataset_gives_the_same_losses_as_one_in_memory(launched: Launcher, num_workers: int) -> None:
    """One sample at a time, here or in loader processes, or whole batches: the numbers are equal."""
    rows = "def make():\n    return parts(train_data=Rows(256), val_data=Rows(64))\n"
    memory = "def make():\n    return parts()\n"
    runs = [completed(launched.workload(code, num_workers=num_workers)) for code in (rows, memory)]
    assert losses(runs[0]) == losses(runs[1])
    assert runs[0].value("val_metric") == runs[1].value("val_metric")


def test_list_of_pairs_is_a_dataset(launched: Launcher) -> None:
    """Whatever has a length and an index."""
    pairs = "[(x, int(x.sum() > 0)) for x in data(99).inputs]"
    completed(launched.workload(f"def make():\n    return parts(train_data={pairs}, val_data={pairs}[:50])\n"))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("(o.argmax(-1) == t).float()", None),
        ("o.argmax(-1) == t", None),
        ("(o.argmax(-1) == t).float().mean()", None),
        ("float((o.argmax(-1) == t).float().mean())", None),
        ("(o.argmax(-1) == t).numpy()", None),
        ("0.25", 0.25),
        ("1", 1.0),
    ],
)
def test_metric_may_be_per_sample_or_a_mean(launched: Launcher, metric: str, value: float | None) -> None:
    """Tensors, numbers and arrays; a mean counts for each sample of its batch."""
    run = completed(launched.workload(f"def make():\n    return parts(metric=lambda o, t: {metric})\n"))
    plain = launched.workload("def make():\n    return parts()\n")
    assert run.value("val_metric") == pytest.approx(plain.value("val_metric") if value is None else value, abs=1e-6)


@pytest.mark.parametrize(
    "factory",
    [
        "def make():\n    return Workload(**parts())\n",
        "class make:\n    def __init__(self):\n        self.__dict__.update(parts())\n",
        "def make(**unused):\n    return parts()\n",
        "make = lambda size='tiny', *, seed: parts()\n",
        "import functools\nmake = functools.partial(parts)\n",
    ],
)
def test_factory_may_return_what_holds_the_parts(launched: Launcher, factory: str) -> None:
    """A Workload, an object or a mapping, made by whatever can be called."""
    assert losses(completed(launched.workload(factory))) == losses(
        launched.workload("def make():\n    return parts()\n")
    )


def test_targets_may_be_nested(launched: Launcher) -> None:
    """The loss knows what they are."""
    code = """
class Mine(Rows):
    def item(self, inputs, target, index):
        return inputs, {"note": "text", "y": (target,)}

def make():
    return parts(train_data=Mine(), val_data=Mine(40), loss=lambda o, t: F.cross_entropy(o, t["y"][0]),
        metric=lambda o, t: (o.argmax(-1) == t["y"][0]).float())
"""
    completed(launched.workload(code))


def test_double_precision_model_trains(launched: Launcher) -> None:
    """Weights and data may be wider than fp32."""
    double = "def wide(n):\n    d = data(n)\n    return TensorPairs(d.inputs.double(), d.targets)\n"
    code = (
        double
        + "def make():\n    return parts(model=nn.Linear(8, 2).double(), train_data=wide(256), val_data=wide(64))\n"
    )
    completed(launched.workload(code))
