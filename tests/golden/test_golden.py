"""Each entry of the corpus still leads to the same verdict, console output, traces and report."""

import difflib
import time
from collections.abc import Iterator, Mapping

import pytest
from pyspark.sql import SparkSession

from tests.golden.corpus import CORPUS, EXPECTED, TEXTS, make_texts, names


@pytest.fixture(scope="module")
def texts(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """The texts that Fencepost makes now, of all entries in one Spark job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield make_texts(spark, names(), tmp_path_factory.mktemp("golden"))
    time.tzset()


@pytest.mark.parametrize("name", names())
def test_an_entry_leads_to_the_expected_texts(
    name: str, texts: Mapping[str, Mapping[str, str]], request: pytest.FixtureRequest
) -> None:
    folder = CORPUS / name / EXPECTED
    if request.config.getoption("--golden-update"):
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        for file, text in texts[name].items():
            (folder / file).write_text(text, encoding="utf-8")
    expected = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*")}
    difference = [
        line
        for file in TEXTS
        for line in difflib.unified_diff(
            expected.get(file, "").splitlines(),
            texts[name].get(file, "").splitlines(),
            f"{name}/{EXPECTED}/{file}",
            f"{name}/{file} now",
            lineterm="",
            n=1,
        )
    ]
    assert not difference, "\n".join(difference)
