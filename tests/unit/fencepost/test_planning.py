"""From options to a plan."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from fencepost import planning, registry
from harness.settings.options import Options
from workloads.registry import WORKLOADS


def test_a_fault_that_is_not_by_default_is_struck_where_it_is_named_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seldom = {
        name: replace(nemesis, by_default=name != "kill-broker")
        for name, nemesis in registry.nemeses().items()
    }
    monkeypatch.setattr(registry, "nemeses", lambda: MappingProxyType(seldom))
    options = Options(time_limit_s=300, seed=1)
    drawn = planning.draw(options, WORKLOADS["shop"])
    assert {one.fault for one in drawn.injections} == seldom.keys() - {"kill-broker", "kill-postgres"}
    assert "kill-broker" not in drawn.unscheduled
    named = planning.draw(replace(options, nemesis=("kill-broker",)), WORKLOADS["shop"])
    assert {one.fault for one in named.injections} == {"kill-broker"}
