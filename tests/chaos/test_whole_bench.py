"""A whole bench, from its first measurement to its page, on both clients."""

import json
import subprocess
import sys
from pathlib import Path


def test_a_small_bench_measures_every_point_and_compares_every_claim(tmp_path: Path) -> None:
    options = [
        "--rounds",
        "2",
        "--txn-size",
        "1,100",
        "--partitions",
        "3,1",
        "--workers",
        "1,2",
        "--seed",
        "1",
    ]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fencepost", "bench", *options, "--json", "--store", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert not figures["cut_short"]
    assert figures["measurements"]["made"] == figures["measurements"]["planned"]
    for point in figures["points"]:
        assert not point["failed"], point
        if point["measured"] == "throughput":
            assert point["inputs_per_s"] > 0
            assert 0.5 < point["mean_txn_size"] / point["txn_size"] <= 1.0
        else:
            assert point["samples"] >= 10
            assert point["latency_ms"]["p50"] > 0
        is_baseline = point["delivery"] == "at-least-once" and point["journal"]
        assert is_baseline or all(len(ratio["rounds"]) == 2 for ratio in point["ratios"].values())
    answers = {claim["name"]: claim["answer"] for claim in figures["claims"]}
    assert answers["amortised"] != "not measured"
    assert answers["cost-3-5"] != "not measured"
    (page,) = tmp_path.glob("bench/*/bench.html")
    assert page.read_text().count("<svg") > 8
