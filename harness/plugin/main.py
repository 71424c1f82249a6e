"""Which pytest sessions are exam sessions? Those that were given something under ``scenarios/``."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.plugin.options import Options, add_options

SCENARIOS = "scenarios"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the project."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Turn a session over scenarios into an exam session; every other session stays as it is."""
    if not is_exam(config):
        return
    from harness.plugin.session import ExamSession

    try:
        session = ExamSession(config, Options.read(config))
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(session, "gpu-exam-session")


def is_exam(config: pytest.Config) -> bool:
    """Tell whether a path of the session lies in the scenarios folder."""
    here = Path(config.invocation_params.dir)
    given = [Path(here, argument.partition("::")[0]).resolve() for argument in config.args]
    # A configuration file above the project moves pytest's root when --exam-out lies outside.
    roots = [root for root in (config.rootpath, here.resolve()) if (root / SCENARIOS).is_dir()]
    return any(root / SCENARIOS in (path, *path.parents) or path == root for root in roots for path in given)
