"""Parametrizes the scenarios: over cause x workload x device kind, or over workload x device kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from harness.plugin.options import Options
from harness.plugin.places import BasePlace, Place, base_places, places
from harness.plugin.session import ExamSession

SOURCES: dict[str, Callable[[str, Options], Iterable[Place | BasePlace]]] = {"place": places, "base_place": base_places}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Fill ``place`` and ``base_place``; what needs a GPU is marked so."""
    session = metafunc.config.pluginmanager.get_plugin("gpu-exam-session")
    for name, source in SOURCES.items():
        if name in metafunc.fixturenames and isinstance(session, ExamSession):
            found = source(metafunc.module.SCENARIO, session.options)
            marked = [pytest.param(p, id=str(p), marks=[pytest.mark.gpu] if p.device == "cuda" else []) for p in found]
            metafunc.parametrize(name, marked)
