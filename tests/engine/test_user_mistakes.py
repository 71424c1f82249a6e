"""A mistake in a user's workload is one sentence with the part and the line, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import HEAD, Launcher

MAKE = "def make():\n    return parts()\n"

FIRST = HEAD.count("\n") + 1
"""The number of the line where the code of a test begins."""

ROWS = "class Mine(Rows):\n    def item(self, inputs, target, index):\n        {}\n"

MAKE_ROWS = "def make():\n    return parts(train_data=Mine(), val_data=Mine(40))\n"

MODEL = """
class Model(nn.Linear):
    def forward(self, inputs):
        {}

def make():
    return parts(model=Model(8, 2))
"""

UNUSED = """
class Model(nn.Linear):
    def __init__(self):
        super().__init__(8, 2)
        self.unused = nn.Linear(3, 3)

def make():
    return parts(model=Model())
"""


def changing(**parts: str) -> str:
    """Return a factory that changes parts."""
    return f"def make():\n    return parts({', '.join(f'{name}={code}' for name, code in parts.items())})\n"


FACTORIES = {
    "def make():\n    return None\n": "the factory returned nothing (None); accepted are a Workload, a dict, or",
    "def make():\n    return 5\n": "the factory returned an object of type int; accepted are a Workload, a dict, or",
    "def make():\n    return {}\n": "the workload lacks model, train_data, val_data, loss, metric; it needs",
    "def make():\n    return [parts()]\n": "the factory returned an object of type list; accepted are",
    "def make():\n    return nn.Linear(8, 2)\n": "the factory returned an object of type Linear; accepted are",
    changing(speed="1"): "unknown parts speed; known are: model,",
    MAKE.replace(
        "return parts()", "raise ValueError('two\\nlines')"
    ): f"ValueError: two lines (mine.py, line {FIRST + 1})",
    MAKE.replace("return parts()", "sys.exit(0)"): f"the factory failed: SystemExit: 0 (mine.py, line {FIRST + 1})",
    "def make(a, size, b):\n    return parts()\n": "the factory needs a, b; it may take 'size' and 'seed' only",
    "make = int\n": "the factory must be a function of nothing, 'size' or 'seed'",
    MAKE.replace("parts()", "Workload()"): "the factory failed: TypeError: Workload.__init__() missing",
    changing(model="None"): "the workload lacks model;",
    changing(model="5"): "model must be a torch.nn.Module, got int",
    changing(model="nn.ReLU()"): "model has no trainable parameter",
    changing(model="nn.Linear(8, 2).requires_grad_(False)"): "model has no trainable parameter",
    changing(model="nn.LazyLinear(2)"): "model has lazy parameters without a shape",
    changing(train_data="[]"): "train_data is empty",
    changing(val_data="data(0)"): "val_data is empty",
    changing(train_data="iter([1])"): "train_data must have a length and an index",
    changing(loss="3"): "loss must be a function of (output, targets), got 3",
    changing(metric="'accuracy'"): "metric must be a function of (output, targets), got 'accuracy'",
    changing(augment="3"): "augment must be a function of (inputs, generator), got 3",
    changing(metric_goal="'up'"): "metric_goal must be 'max' or 'min', got 'up'",
    changing(tokens_per_sample="-1"): "tokens_per_sample must be a whole number >= 0, got -1",
    changing(tokens_per_sample="'9'"): "tokens_per_sample must be a whole number >= 0, got '9'",
    changing(train_data="data(20)"): "batch_size=32 is more than one rank's 20 training samples",
}

STEPS = {
    changing(loss="lambda o, t: F.cross_entropy(o, t, reduction='none')"): "loss must return a scalar, got shape (32,)",
    changing(loss="lambda o, t: 1.0"): "loss must return a scalar tensor, got float",
    changing(loss="lambda o, t: None"): "loss must return a scalar tensor, got NoneType",
    changing(loss="lambda o, t: F.cross_entropy(o, t).detach()"): "loss must be a real number that depends on",
    changing(loss="lambda o, t: o.argmax(-1).sum()"): "loss must be a real number that depends on",
    changing(loss="lambda o, t: o.sum() * 1j"): "loss must be a real number that depends on",
    changing(
        loss="lambda o: o.sum()"
    ): "TypeError: make.<locals>.<lambda>() takes 1 positional argument but 2 were given",
    changing(loss="nn.CrossEntropyLoss(weight=torch.ones(3))"): "RuntimeError: weight tensor should be defined",
    changing(metric="lambda o, t: o"): "metric must return shape (32,) or (), got (32, 2)",
    changing(metric="lambda o, t: o.mean(0)"): "metric must return shape (32,) or (), got (2,)",
    changing(metric="lambda o, t: 'good'"): "metric must return a tensor or a number, got str",
    changing(metric="lambda o, t: None"): "metric must return a tensor or a number, got NoneType",
    changing(metric="lambda o, t: [o, t]"): "metric must return a tensor or a number, got list of 2",
    changing(model="nn.Linear(7, 2)"): "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x8 and 7x2)",
    changing(train_data="[torch.zeros(8)] * 99"): "an item of a dataset must be a pair (inputs, targets), got Tensor",
    changing(
        val_data="[(torch.zeros(8), 1, 2)] * 99"
    ): "an item of a dataset must be a pair (inputs, targets), got list of 3",
    MODEL.format("raise KeyError('hidden')"): f"KeyError: 'hidden' (mine.py, line {FIRST + 3})",
    MODEL.format("sys.exit('done')"): f"SystemExit: done (mine.py, line {FIRST + 3})",
    ROWS.format("raise ValueError('bad sample')") + MAKE_ROWS: f"ValueError: bad sample (mine.py, line {FIRST + 2})",
    ROWS.format("return torch.zeros(index + 1), target")
    + MAKE_ROWS: "RuntimeError: stack expects each tensor to be equal size",
}


@pytest.mark.parametrize(("code", "said"), FACTORIES.items(), ids=range(len(FACTORIES)))
def test_wrong_part_is_named(launched: Launcher, code: str, said: str) -> None:
    """Before training: the sentence names the workload and the part."""
    run = launched.workload(code)
    assert run.state == "refused"
    assert "mine.py:make: " in run.message
    assert said in run.message
    assert "Traceback" not in (run.folder / "rank0.log").read_text()


@pytest.mark.parametrize(("code", "said"), STEPS.items(), ids=range(len(STEPS)))
def test_part_that_misbehaves_is_named(launched: Launcher, code: str, said: str) -> None:
    """In training: the same."""
    run = launched.workload(code, max_steps=2)
    assert run.state == "refused"
    assert f"mine.py:make: {said}" in run.message
    assert "Traceback" not in (run.folder / "rank0.log").read_text()


@pytest.mark.parametrize("part", ["model", "train_data", "val_data", "loss", "metric"])
def test_missing_part_is_named(launched: Launcher, part: str) -> None:
    """Each of the five is needed."""
    run = launched.workload(f"def make():\n    made = parts()\n    del made['{part}']\n    return made\n")
    assert f"mine.py:make: the workload lacks {part}; it needs model," in run.message


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_there\n", f"ModuleNotFoundError: No module named 'nothing_there' (mine.py, line {FIRST})"),
        ("def make(:\n", f"SyntaxError: invalid syntax (mine.py, line {FIRST})"),
        ("\x00\n", "cannot be imported: SyntaxError: source code string cannot contain null bytes"),
        ("1 / 0\n", f"ZeroDivisionError: division by zero (mine.py, line {FIRST})"),
        ("sys.exit(0)\n", f"SystemExit: 0 (mine.py, line {FIRST})"),
        ("made = 1\n", "mine.py has no function 'make'"),
        ("make = 1\n", "mine.py has no function 'make'"),
    ],
)
def test_file_that_cannot_be_imported_is_named_with_its_line(launched: Launcher, code: str, said: str) -> None:
    """Not even an exit with status 0 passes for a run."""
    run = launched.workload(code)
    assert (run.state, said in run.message) == ("refused", True), run.message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent.py:make", "--workload: no file"),
        (".py:make", "--workload: no file"),
        ("mine.py", "expected a built-in name or path.py:FACTORY"),
        ("mine.py:", "expected a built-in name or path.py:FACTORY"),
        ("mine.py:a b", "expected a built-in name or path.py:FACTORY"),
        ("folder/mine", "expected a built-in name or path.py:FACTORY"),
        ("digits_mpl", "unknown workload 'digits_mpl' (did you mean 'digits_mlp'?)"),
        ("", "unknown workload ''"),
    ],
)
def test_name_of_no_workload_is_refused(launched: Launcher, name: str, said: str) -> None:
    """The sentence says what is accepted, or what is there."""
    run = launched(workload=name)
    assert (run.state, said in run.message) == ("refused", True), run.message


def test_line_of_a_file_beside_the_workload_is_named(launched: Launcher) -> None:
    """The model may live in a module of its own."""
    name = launched.written("from beside import Model\ndef make():\n    return parts(model=Model(8, 2))\n")
    code = (
        "from torch import nn\nclass Model(nn.Linear):\n    def forward(self, inputs):\n        return inputs.missing\n"
    )
    (launched.folder / name.split("/")[-2] / "beside.py").write_text(code)
    assert "has no attribute 'missing' (beside.py, line 4)" in launched(workload=name).message


def test_mistake_in_a_loader_process_is_told_like_any_other(launched: Launcher) -> None:
    """Torch wraps it into text with a traceback; one line of it is enough."""
    fails = "if torch.utils.data.get_worker_info(): raise ValueError('bad sample')\n        return inputs, target"
    run = launched.workload(ROWS.format(fails) + MAKE_ROWS, num_workers=1)
    assert run.state == "refused"
    assert run.message.endswith("mine.py:make: ValueError: bad sample")


def test_parameters_without_a_gradient_are_explained_for_several_ranks(launched: Launcher) -> None:
    """Torch's own explanation is kept, without the traceback."""
    run = launched.workload(UNUSED, devices=2)
    assert run.state == "refused"
    assert "parameters that were not used in producing loss" in run.message


def test_our_own_error_keeps_its_traceback(launched: Launcher) -> None:
    """Also when the user's file is called like one of ours."""
    name = launched.written("import harness.engine.train\nharness.engine.train.Loop.check = None\n" + MAKE)
    Path(name.rpartition(":")[0]).rename(Path(name).with_name("train.py"))
    run = launched(workload=name.replace("mine.py", "train.py"))
    assert (run.state, "TypeError: 'NoneType' object is not callable" in run.message) == ("error", True), run.message
    assert "Traceback" in (run.folder / "rank0.log").read_text()
