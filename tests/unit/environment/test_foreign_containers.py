"""A Docker daemon whose containers run on another kind of machine than this one, as under macOS."""

from pathlib import Path
from typing import Any, cast

import pytest

from harness.common.errors import EnvironmentFailure, UsageError
from harness.environment.builder import Builder
from harness.environment.container_image import container_image
from harness.environment.kafka import KafkaDistribution
from harness.environment.platforms import Platform
from harness.environment.toxiproxy import toxiproxy_binary, toxiproxy_binary_for, toxiproxy_for

FOREIGN = Platform("linux", "riscv64")
KAFKA = KafkaDistribution("4.3.1", (Path("/jars/one.jar"),))


class ForeignDaemon:
    """Says what it runs on, and nothing else."""

    def version(self) -> dict[str, str]:
        return {"Os": FOREIGN.system, "Arch": FOREIGN.machine}


def test_the_names_are_those_of_go(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine, name in (("x86_64", "amd64"), ("aarch64", "arm64"), ("arm64", "arm64")):
        monkeypatch.setattr("platform.machine", lambda told=machine: told)
        monkeypatch.setattr("platform.system", lambda: "Darwin")
        assert Platform.of_this_machine() == Platform("darwin", name)


def test_no_image_is_built_of_parts_that_are_for_another_system(tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentFailure, match=r"run on linux/riscv64: name an image with --set image=NAME"
    ):
        container_image(cast("Any", ForeignDaemon()), "bundled", KAFKA, tmp_path, print)


def test_a_toxiproxy_for_containers_has_a_place_of_its_own_and_may_be_named(tmp_path: Path) -> None:
    assert toxiproxy_binary_for(FOREIGN, tmp_path) != toxiproxy_binary(tmp_path, "bundled")
    named = tmp_path / "toxiproxy-server"
    named.write_bytes(b"of another system: it cannot be tried here")
    with Builder() as builder:
        assert toxiproxy_for(FOREIGN, str(named), tmp_path, builder=builder) == named
        with pytest.raises(UsageError, match="name its binary for linux/riscv64, auto, or bundled"):
            toxiproxy_for(FOREIGN, str(tmp_path / "nothing"), tmp_path, builder=builder)
        with pytest.raises(UsageError, match="does not exist"):
            toxiproxy_for(FOREIGN, str(tmp_path), tmp_path, builder=builder)
