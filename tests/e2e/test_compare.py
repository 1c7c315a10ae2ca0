"""bench/compare without its peers: ratios within a round, what is missing, table and plot."""
import json
import subprocess
import sys

from conftest import ROOT

COMPARE = ROOT / "bench/compare"


def compare(*arguments):
    return subprocess.run([sys.executable, COMPARE, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


def line(model, row, what, round_number, value, **more):
    return json.dumps({"model": model, "row": row, "what": what, "round": round_number, "value": value, **more}) + "\n"


def test_ratios_are_taken_within_a_round(tmp_path):
    # A neighbour halves everything in round 1; in round 0 the peer is missing its figure.
    ours, theirs = {0: 30.0, 1: 15.0, 2: 30.0}, {1: 10.0, 2: 24.0}
    path = tmp_path / "run.jsonl"
    path.write_text(
        json.dumps({"about": "machine"}) + "\n"
        + "".join(line("1b1", "octavo BF16", "decode 1", r, v, weight_bytes=10**9) for r, v in ours.items())
        + "".join(line("1b1", "llama.cpp BF16", "decode 1", r, v) for r, v in theirs.items())
        + "".join(line("", "limits", "bandwidth", r, 40e9) for r in range(3))
        + "".join(line("smollm2", "octavo BF16", "at rate: median TTFT", r, 20.0) for r in range(3))
        + "".join(line("smollm2", "vllm BF16", "at rate: median TTFT", r, 50.0) for r in range(3)))
    out = compare("--report", path, "--cache", tmp_path)
    assert out.returncode == 0, out.stderr
    rows = {row.split("  ")[0]: row.split() for row in out.stdout.splitlines()}
    against = rows["1b1 decode 1: octavo BF16 / llama.cpp BF16"]
    assert against[-5:] == ["1.38", "1.25", "1.50", "1.20", "ok"]
    assert rows["1b1 decode 1: octavo BF16 / bandwidth"][-5:] == ["0.75", "0.38", "0.75", "0.88", "BELOW"]
    assert "2.50" in rows["smollm2 at rate: median TTFT: octavo BF16 / vllm BF16 (inverse)"]
    assert rows["octavo BF16"][-1] == "30.0"
    plots = [p for p in (tmp_path / "run.png", tmp_path / "run.svg") if p.exists()]
    assert len(plots) == 1 and str(plots[0]) in out.stdout and plots[0].stat().st_size > 500


def test_missing_engines_and_files_are_reported_not_fatal(tmp_path):
    out = compare("--quick", "--rounds", "1", "--build", tmp_path / "b", "--cache", tmp_path / "c", "--models", tmp_path / "m")
    assert out.returncode == 0, out.stderr
    for row in ("1b1 octavo BF16", "1b1 llama.cpp Q4_0", "smollm2 vllm BF16 server"):
        assert f"missing: {row}: no /" in out.stdout
    lines = [json.loads(text) for text in (tmp_path / "b/compare.jsonl").read_text().splitlines()]
    assert lines[0]["about"] == "machine" and all("missing" in entry for entry in lines[1:])
