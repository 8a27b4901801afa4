"""What the tests of faults share."""

import pytest

from nemeses import pause_instance
from nemeses.aiming import observed_ids as overhearing
from nemeses.effects import instances, membership, stopped


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is awaited for a moment."""
    monkeypatch.setattr(stopped, "CATCH_TIMEOUT_S", 0.5)
    monkeypatch.setattr(stopped, "PREPARE_TIMEOUT_S", 0.5)
    monkeypatch.setattr(overhearing, "IDENTIFY_TIMEOUT_S", 0.5)
    for name in ("STABLE_TIMEOUT_S", "TAKE_OVER_TIMEOUT_S"):
        monkeypatch.setattr(membership, name, 0.5)
    monkeypatch.setattr(pause_instance, "COME_BACK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(instances, "SOON_S", 0.3)
