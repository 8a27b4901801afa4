"""The archive of Spark's classes fits one Java and the jars that it was made from."""

import os
from pathlib import Path
from typing import Any

import pytest

from fencepost.checks import spark
from harness.environment.java import Java


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    folder = tmp_path / "jars"
    folder.mkdir()
    paths = [folder / "spark-core.jar", folder / "other.jar"]
    for path in paths:
        path.write_text("classes")
        os.utime(path, (1_000, 1_000))
    monkeypatch.setattr(spark, "class_path", lambda: paths)
    monkeypatch.setattr(spark, "cache_folder", lambda: tmp_path / "cache")
    return paths


def java(release: str = "17.0.15") -> Java:
    return Java(Path("/java"), Path("/java/bin/java"), 17, release, "PATH")


def test_the_archive_of_jars_that_were_installed_again_is_another(jars: list[Path]) -> None:
    first = spark.archive_path(java())
    assert spark.archive_path(java()) == first
    os.utime(jars[1], (2_000, 2_000))
    installed_again = spark.archive_path(java())
    assert installed_again != first
    assert spark.archive_path(java("17.0.16")) not in {first, installed_again}


def test_an_archive_that_no_longer_fits_is_removed(
    jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def provide(cache: Path, name: str, *_: Any, **__: Any) -> None:
        (cache / name).mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(spark, "provide", provide)
    of_others = tmp_path / "cache" / "archive-spark-4.3.0-java-17-00000001-00000002"
    of_others.mkdir(parents=True)
    builder: Any = None
    spark.make_archive(java(), builder)
    old = spark.archive_path(java()).parent
    os.utime(jars[0], (3_000, 3_000))
    spark.make_archive(java(), builder)
    assert sorted((tmp_path / "cache").iterdir()) == sorted([of_others, spark.archive_path(java()).parent])
    assert not old.exists()
