"""Runs the kernel tests on emulated x86 CPUs (make test-isa), and ends with one line that counts them.

Each row of CPUS is a machine that proves the level which is the newest on it, and that dispatch offers it its levels and
none above. The emulator boots once a program; its README (shared/tools) says what it covers and how slow it is.
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

# Model of the emulator, features taken away, all levels that it must have; the level whose kernels it proves.
CPUS = [
    ("corei5_lynnfield_750", "", "scalar", "scalar"),
    ("corei7_ivy_bridge_3770k", "", "scalar", ""),  # AVX and F16C without AVX2
    ("corei7_haswell_4770", "", "scalar avx2", "avx2"),
    ("arrow_lake", "", "scalar avx2 avx_vnni", "avx_vnni"),
    ("corei7_skylake_x", "", "scalar avx2 avx512", "avx512"),
    ("corei7_icelake_u", "", "scalar avx2 avx512 avx512_vnni", "avx512_vnni"),
    ("sapphire_rapids", "amx,amx_int8,amx_bf16", "scalar avx2 avx_vnni avx512 avx512_vnni avx512_bf16", "avx512_bf16"),
    ("sapphire_rapids", "", "scalar avx2 avx_vnni avx512 avx512_vnni avx512_bf16 amx", "amx"),
]
# Test programs and what of them to run. Attention has entries at few levels; its other tests take a minute natively.
PROGRAMS = [("kernels_tests", "*"), ("ops_tests", "Attention.ShortSequences*")]


def emulate(args, row):
    cpu, without, _, level = row
    started = time.time()
    code, output = 0, ""
    for program, tests in PROGRAMS:
        command = [args.tools / "run-x86-emulated", "--cpu", cpu, "--timeout", str(args.seconds)]
        command += ["--without", without] if without else []
        # A sparse sample of the floats: every 509th, as natively, would take an hour.
        command += ["--env", "OCTAVO_STRIDE=200003", "--env", f"OCTAVO_TEST_LEVELS={level or 'none'}", "--"]
        command += [args.build / program, f"--gtest_filter={tests}", "--gtest_color=no"]
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        code = code or result.returncode
        output += result.stdout + result.stderr
    return row, code, output, time.time() - started


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
    parser.add_argument("--seconds", type=int, default=3600, help="limit of one program")
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
