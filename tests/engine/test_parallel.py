"""The ranks of a run find each other through torchrun's variables."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from harness.engine.parallel import Ranks, bare, distribute, no_reduction, ranks_from_environment, synchronized
from harness.errors import UsageError
from tests.running import Launcher, losses

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_process_without_a_launcher_is_the_only_rank() -> None:
    """Nothing is set."""
    assert ranks_from_environment() == Ranks(0, 0, 1, launched=False)


@pytest.mark.parametrize(
    ("values", "ranks"),
    [
        (("1", "2", "1"), Ranks(1, 1, 2, launched=True)),
        (("5", "8", "1"), Ranks(5, 1, 8, launched=True)),
        (("0", "1", None), Ranks(0, 0, 1, launched=True)),
        (("3", "4", None), Ranks(3, 3, 4, launched=True)),
        (("3", None, "3"), Ranks(0, 0, 1, launched=False)),
    ],
)
def test_variables_name_the_rank(monkeypatch: pytest.MonkeyPatch, values: tuple[str | None, ...], ranks: Ranks) -> None:
    """As torchrun sets them; a rank without a world is none."""
    for name, value in zip(VARIABLES, values, strict=True):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert ranks_from_environment() == ranks


def test_variable_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence for a broken launcher."""
    monkeypatch.setenv("RANK", "first")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match=r"RANK, LOCAL_RANK and WORLD_SIZE must be whole numbers: .*'first'"):
        ranks_from_environment()


def test_single_rank_is_not_wrapped() -> None:
    """Its numbers are those of the model alone."""
    model = nn.Linear(2, 2)
    assert distribute(model, torch.device("cpu"), 1) is bare(model) is synchronized(model) is model
    with no_reduction(model, last=False):
        pass


def test_ranks_have_equal_weights_and_different_data(launched: Launcher) -> None:
    """Gradients are averaged: what each rank records of its data differs, the result does not."""
    run = launched(devices=2)
    first, second = (rank.last("end")["summary"] for rank in run.ranks)
    assert first["val_metric"] == second["val_metric"]
    assert first["loss"] != second["loss"]
    assert [rank.last("start")["rank"] for rank in run.ranks] == [0, 1]
    assert {rank.last("start")["world_size"] for rank in run.ranks} == {2}


@pytest.mark.parametrize("grad_accum", [1, 3])
def test_more_ranks_than_cores_train(launched: Launcher, grad_accum: int) -> None:
    """Four ranks on two cores, equal when repeated, and each ends by itself."""
    runs = [launched(devices=4, grad_accum=grad_accum, max_steps=6) for _ in range(2)]
    assert [run.state for run in runs] == ["completed", "completed"]
    assert losses(runs[0]) == losses(runs[1])
