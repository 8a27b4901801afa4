"""The library in reports/html/vendor is exactly what its authors published: the npm package uplot 1.6.32."""

import hashlib
from pathlib import Path

import reports.html

FOLDER = Path(reports.html.__file__).parent / "vendor" / "uplot"
SHA256 = {
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_the_files_have_the_checksums_of_the_published_package() -> None:
    actual = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.iterdir()}
    assert actual == SHA256


def test_the_docs_name_the_version_and_the_licence() -> None:
    page = (Path(__file__).parents[3] / "docs" / "dependencies.md").read_text()
    assert "| uPlot | MIT | 1.6.32," in page
    assert "v1.6.32" in (FOLDER / "uPlot.iife.min.js").read_text()
    assert (FOLDER / "LICENSE").read_text().startswith("The MIT License (MIT)")
