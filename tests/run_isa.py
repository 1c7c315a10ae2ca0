"""Runs the kernel tests on emulated x86 CPUs (make test-isa), and ends with one line that counts them.

Each row of CPUS is a machine that proves the levels which are the newest on it, and that dispatch offers it these levels
and none above. The emulator boots once a row; its README (shared/tools) says what it covers and how slow it is.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

from run import Count

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Model of the emulator, features taken away, all levels that it must have; the levels of their own that it proves.
AVX512 = "scalar avx2 avx512"
CPUS = [
    ("corei5_lynnfield_750", "", "scalar", ["scalar"]),
    ("corei7_ivy_bridge_3770k", "", "scalar", []),  # AVX and F16C without AVX2
    ("corei7_haswell_4770", "", "scalar avx2", ["avx2"]),
    ("arrow_lake", "", "scalar avx2 avx_vnni", ["avx_vnni"]),
    ("corei7_skylake_x", "", AVX512, ["avx512"]),
    ("corei7_icelake_u", "", AVX512 + " avx512_vnni", ["avx512_vnni"]),
    ("sapphire_rapids", "amx,amx_int8,amx_bf16", "scalar avx2 avx_vnni avx512 avx512_vnni avx512_bf16", ["avx512_bf16"]),
    ("sapphire_rapids", "", "scalar avx2 avx_vnni avx512 avx512_vnni avx512_bf16 amx", ["amx"]),
]
# Tests that go through all levels of the machine themselves, short enough everywhere.
ALWAYS = ["Select.*"]
# ... and those that are not: on the machines where a level first appears that has such entries.
ROWWISE = ["Elementwise.*", "Sampling.*", "KvFormats.*"]
WITH_ROWWISE = ("corei5_lynnfield_750", "corei7_haswell_4770", "corei7_skylake_x")


def test_filter(cpu, proves):
    """Parametrised tests are named .../LEVEL or .../LEVEL_FORMAT (a number)."""
    patterns = list(ALWAYS)
    for level in proves:
        patterns += [f"*/{level}", f"*/{level}_?"]
    return ":".join(patterns + (ROWWISE if cpu in WITH_ROWWISE else []))


def emulate(args, row):
    cpu, without, levels, proves = row
    command = [args.tools / "run-x86-emulated", "--cpu", cpu, "--timeout", str(args.seconds)]
    command += ["--without", without] if without else []
    # A sparse sample of the floats: every 509th, as natively, would take an hour.
    command += ["--env", "OCTAVO_STRIDE=200003", "--", args.build / "kernels_tests"]
    command += [f"--gtest_filter={test_filter(cpu, proves)}", "--gtest_color=no"]
    started = time.time()
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return row, result.returncode, result.stdout + result.stderr, time.time() - started


def judge(count, row, code, output, seconds):
    """A crash counts as one failure beside the tests that ended."""
    cpu, without, levels, _ = row
    name = cpu + (f" without {without}" if without else "")
    failed = total = 0
    for outcome, test in re.findall(r"^\[ *(OK|FAILED|SKIPPED) *\] (\S+).* \(\d+ ms\)$", output, re.MULTILINE):
        total += 1
        failed += outcome == "FAILED"
        count.add(f"{name}: {test}", {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[outcome])
    found = re.search(r"^levels: (.*)$", output, re.MULTILINE)
    if not found or found[1] != levels:
        count.add(f"{name}: dispatch offers '{found[1] if found else '?'}', expected '{levels}'", "failed")
        failed += 1
    if code and not failed:
        count.add(f"{name}: exit code {code}", "failed")
        failed = 1
    if failed:
        print(output[-10000:])
    print(f"{name}: {total} tests, {failed} failed, {seconds:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--tools", type=pathlib.Path, default=ROOT / "../shared/tools")
    parser.add_argument("--cpu", help="only rows of this model")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=int, default=1800, help="limit of one machine")
    args = parser.parse_args()
    args.build = args.build.resolve()
    count = Count()
    rows = [row for row in CPUS if args.cpu in (None, row[0])]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(emulate, args, row) for row in rows]):
            judge(count, *done.result())
    for line in count.bad:
        print(line)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped", flush=True)
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
