"""A Docker daemon whose containers run on a platform that differs from this machine, as on macOS."""

from pathlib import Path
from typing import Any, cast

import pytest

from harness.common.errors import EnvironmentFailure, UsageError
from harness.environment.cache import Builder, Platform
from harness.environment.container_image import container_image
from harness.environment.kafka import KafkaDistribution
from harness.environment.toxiproxy import toxiproxy_binary, toxiproxy_binary_for, toxiproxy_for

OTHER_PLATFORM = Platform("linux", "riscv64")
KAFKA = KafkaDistribution("4.3.1", (Path("/jars/one.jar"),))


class OtherPlatformDaemon:
    """A daemon that only states its platform."""

    def version(self) -> dict[str, str]:
        return {"Os": OTHER_PLATFORM.system, "Arch": OTHER_PLATFORM.machine}


def test_a_platform_has_the_names_that_go_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine, name in (("x86_64", "amd64"), ("aarch64", "arm64"), ("arm64", "arm64")):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        monkeypatch.setattr("platform.system", lambda: "Darwin")
        assert Platform.of_this_machine() == Platform("darwin", name)


def test_no_image_is_built_of_parts_for_another_platform(tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentFailure, match=r"run on linux/riscv64: name an image with --set image=NAME"
    ):
        container_image(cast("Any", OtherPlatformDaemon()), "bundled", KAFKA, tmp_path, print)


def test_toxiproxy_for_containers_has_its_own_cache_entry_or_a_path(tmp_path: Path) -> None:
    assert toxiproxy_binary_for(OTHER_PLATFORM, tmp_path) != toxiproxy_binary(tmp_path, "bundled")
    named = tmp_path / "toxiproxy-server"
    named.write_bytes(b"a program of another platform")
    with Builder() as builder:
        assert toxiproxy_for(OTHER_PLATFORM, str(named), tmp_path, builder=builder) == named
        with pytest.raises(UsageError, match="name its binary for linux/riscv64, auto, or bundled"):
            toxiproxy_for(OTHER_PLATFORM, str(tmp_path / "nothing"), tmp_path, builder=builder)
        with pytest.raises(UsageError, match="does not exist"):
            toxiproxy_for(OTHER_PLATFORM, str(tmp_path), tmp_path, builder=builder)
