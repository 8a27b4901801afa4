"""Files are copied out of a container, or the error message says what failed there."""

import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from harness.cluster.docker import DockerBroker
from harness.common.errors import EnvironmentFailure
from harness.containers.container import Container


class Engine:
    """A Docker daemon that runs no command, and returns these bytes and this status. Also its client and its API."""

    id = "c"

    def __init__(self, output: bytes, status: int = 0, errors: bytes = b"") -> None:
        self.output, self.status, self.errors = output, status, errors
        self.client = self.api = self

    def exec_create(self, container: str, command: list[str], **options: Any) -> dict[str, str]:
        assert container == "c" and command[0] == "sh" and "tar" in command[2]
        return {"Id": "e"}

    def exec_start(self, run: str, stream: bool, demux: bool) -> Any:
        chunks = [(self.output[at : at + 700], None) for at in range(0, len(self.output), 700)]
        return iter([*chunks, (None, self.errors)] if self.errors else chunks)

    def exec_inspect(self, run: str) -> dict[str, int]:
        return {"ExitCode": self.status}


def copy(folder: Path, engine: Engine) -> None:
    container = Container(cast("Any", engine), "broker-1", folder / "log")
    container.copy_files(PurePosixPath("/data"), ("*",), (), folder / "out")


def archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo("x-0/00.log")
        info.size = 3000
        tar.addfile(info, io.BytesIO(b"r" * 3000))
    return file.getvalue()


def test_an_archive_is_unpacked(tmp_path: Path) -> None:
    copy(tmp_path, Engine(archive()))
    assert (tmp_path / "out" / "x-0" / "00.log").read_bytes() == b"r" * 3000


def test_a_command_that_cannot_be_run_is_an_error_with_dockers_message(tmp_path: Path) -> None:
    message = "OCI runtime exec failed: exec failed: unable to start container process" + " " * 600
    with pytest.raises(
        EnvironmentFailure, match=r"tar in broker-1 did not write an archive.*OCI runtime exec failed"
    ):
        copy(tmp_path, Engine(message.encode(), status=126))


def test_an_archive_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="broker-1"):
        copy(tmp_path, Engine(archive()[:2000]))


def test_a_tar_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="tar failed in broker-1 with status 1: x-0: file changed"):
        copy(tmp_path, Engine(archive(), status=1, errors=b"x-0: file changed as we read it"))


class BusyContainer:
    """A container whose files change during the first copies."""

    def __init__(self, failures: int) -> None:
        self.failures, self.copies = failures, 0

    def copy_files(self, folder: Any, patterns: Any, exclude: Any, out: Path) -> None:
        self.copies += 1
        (out / str(self.copies)).touch()
        if self.copies <= self.failures:
            raise EnvironmentFailure("tar failed in broker-1 with status 1: file changed as we read it")


def test_a_copy_during_which_a_file_changed_is_repeated(tmp_path: Path) -> None:
    container = BusyContainer(failures=2)
    broker = DockerBroker(1, tmp_path, 9092, lambda: cast("Container", container))
    broker._container = cast("Container", container)
    broker.copy_data()
    assert [file.name for file in broker.data_dir.iterdir()] == ["3"]


def test_files_that_never_stop_changing_are_an_error(tmp_path: Path) -> None:
    container = BusyContainer(failures=99)
    broker = DockerBroker(1, tmp_path, 9092, lambda: cast("Container", container))
    broker._container = cast("Container", container)
    with pytest.raises(EnvironmentFailure, match="file changed as we read it"):
        broker.copy_data()
    assert container.copies == 5
