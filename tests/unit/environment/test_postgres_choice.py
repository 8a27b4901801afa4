"""The choice of a PostgreSQL, and the errors for a folder without one."""

from pathlib import Path

import pytest

from harness.common.errors import UsageError
from harness.environment.postgres import bundled_postgres, find_postgres, system_postgres

pytestmark = pytest.mark.processes


def write_programs(folder: Path, version: str, programs: tuple[str, ...] = ("initdb", "postgres")) -> Path:
    """Write programs that only print their version."""
    folder.mkdir(parents=True)
    for name in programs:
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_bundled_server_is_new_enough() -> None:
    assert int(bundled_postgres().version.split(".")[0]) >= 16
    assert bundled_postgres().bundled


def test_the_newest_server_outside_path_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin")
    assert system_postgres(tmp_path) is None
    write_programs(tmp_path / "usr/lib/postgresql/9.6/bin", "9.6.24")
    assert system_postgres(tmp_path) is None
    write_programs(tmp_path / "usr/lib/postgresql/17/bin", "17beta1")
    write_programs(tmp_path / "usr/lib/postgresql/15/bin", "15.18 (Debian 15.18-0+deb12u1)")
    write_programs(tmp_path / "usr/pgsql-18/bin", "18.1", ("postgres",))
    postgres = system_postgres(tmp_path)
    assert postgres is not None and (postgres.version, postgres.folder.parent.name) == ("17beta1", "17")


def test_the_link_of_a_server_on_path_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_programs(tmp_path / "real", "16.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "postgres").symlink_to(folder / "postgres")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    postgres = system_postgres(tmp_path)
    assert postgres is not None and (postgres.folder, postgres.origin) == (folder, "PATH")


@pytest.mark.parametrize(
    ("version", "words"), [("11.9", "is PostgreSQL 11.9, but 12 or newer"), (None, "has no PostgreSQL")]
)
def test_a_folder_without_a_usable_server_is_refused(tmp_path: Path, version: str | None, words: str) -> None:
    folder = write_programs(tmp_path / "bin", version) if version else tmp_path
    with pytest.raises(UsageError, match=words):
        find_postgres(str(folder))
