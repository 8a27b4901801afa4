"""Files out of a container: what comes is an archive, or the words of whatever failed there."""

import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from harness.common.errors import EnvironmentFailure
from harness.containers.container import Container


class Engine:
    """Whoever is asked to run `tar`: gives these bytes, and this status. A `client`, its `api` and a handle at once."""

    id = "c"

    def __init__(self, given: bytes, status: int = 0) -> None:
        self.given, self.status = given, status
        self.client = self.api = self

    def exec_create(self, container: str, command: list[str], **options: Any) -> dict[str, str]:
        assert container == "c" and command[0] == "tar"
        return {"Id": "e"}

    def exec_start(self, run: str, stream: bool) -> Any:
        return iter([self.given[at : at + 700] for at in range(0, len(self.given), 700)])

    def exec_inspect(self, run: str) -> dict[str, int]:
        return {"ExitCode": self.status}


def packed(place: Path, engine: Engine) -> None:
    container = Container(cast("Any", engine), "broker-1", place / "log")
    container.copy_folder(PurePosixPath("/data"), (), place / "out")


def archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo("x-0/00.log")
        info.size = 3000
        tar.addfile(info, io.BytesIO(b"r" * 3000))
    return file.getvalue()


def test_an_archive_is_unpacked(tmp_path: Path) -> None:
    packed(tmp_path, Engine(archive()))
    assert (tmp_path / "out" / "x-0" / "00.log").read_bytes() == b"r" * 3000


def test_a_command_that_cannot_be_run_is_told_in_its_own_words(tmp_path: Path) -> None:
    words = "OCI runtime exec failed: exec failed: unable to start container process" + " " * 600
    with pytest.raises(
        EnvironmentFailure, match=r"tar in broker-1 did not write an archive.*OCI runtime exec failed"
    ):
        packed(tmp_path, Engine(words.encode(), status=126))


def test_an_archive_that_is_cut_off_is_none(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="broker-1"):
        packed(tmp_path, Engine(archive()[:2000]))


def test_a_tar_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="tar failed in broker-1 with status 2"):
        packed(tmp_path, Engine(archive(), status=2))
