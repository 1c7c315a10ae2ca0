"""Runs the test programs of a build folder and the end-to-end tests, and ends with one line that counts them.

unit: every *_tests program (GoogleTest, golden tests among them) and the self-checks of the tree.
e2e: pytest over tests/e2e against the built binary.
sanitized, threads: the programs that a sanitizer build has.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.bad = []

    def add(self, name, outcome):
        setattr(self, outcome, getattr(self, outcome) + 1)
        if outcome != "passed":
            self.bad.append(f"{outcome}: {name}")


def run_gtest(program, count, seconds):
    """One GoogleTest program; a crash counts as one failure beside what its report holds."""
    started = time.time()
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        try:
            result = subprocess.run(
                [program, f"--gtest_output=json:{report}", "--gtest_brief=1"],
                capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
            )
            code, output = result.returncode, result.stdout + result.stderr
        except subprocess.TimeoutExpired as error:
            code, output = -1, f"timeout after {seconds} s\n{error.stdout or ''}"
        cases = []
        if report.exists():
            for suite in json.loads(report.read_text())["testsuites"]:
                cases += [(suite["name"], case) for case in suite["testsuite"]]
    failed = 0
    for suite, case in cases:
        name = f"{program.name} {suite}.{case['name']}"
        if case["result"] == "SKIPPED":
            count.add(name, "skipped")
        elif case.get("failures"):
            failed += 1
            count.add(name, "failed")
        else:
            count.add(name, "passed")
    if code != 0 and failed == 0:
        count.add(f"{program.name} (exit code {code})", "failed")
        failed = 1
    if failed:
        print(output[-20000:])
    print(f"{program.name}: {len(cases)} tests, {failed} failed, {time.time() - started:.1f} s", flush=True)


def run_check(command, count):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        print(result.stdout + result.stderr)
    count.add(" ".join(map(str, command[1:])), "failed" if result.returncode else "passed")


def run_pytest(count, build):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        environment = dict(os.environ, OCTAVO_BINARY=str((build / "octavo").resolve()))
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(ROOT / "tests/e2e")],
            env=environment, check=False,
        ).returncode
        failed = 0
        if report.exists():
            for case in xml.etree.ElementTree.parse(report).iter("testcase"):
                kinds = {child.tag for child in case}
                outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
                failed += outcome == "failed"
                count.add(f"{case.get('classname')}::{case.get('name')}", outcome)
        if code != 0 and failed == 0:
            count.add(f"pytest (exit code {code})", "failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", choices=["unit", "e2e", "sanitized", "threads"])
    parser.add_argument("--seconds", type=int, default=1200, help="limit of one test program")
    args = parser.parse_args()
    build = args.build.resolve()
    count = Count()
    if args.only != "e2e":
        programs = sorted(path for path in build.rglob("*_tests") if path.is_file() and os.access(path, os.X_OK))
        if args.only in ("sanitized", "threads"):
            programs = [path for path in programs if path.name != "real_tests"]  # too slow there
        if not programs:
            sys.exit(f"no test programs in {build}")
        for program in programs:
            run_gtest(program, count, args.seconds)
    if args.only in (None, "unit"):
        run_check([sys.executable, ROOT / "tests/check_layers.py"], count)
        run_check([sys.executable, ROOT / "tests/check_objects.py", build], count)
    if args.only in (None, "e2e"):
        run_pytest(count, build)
    for line in count.bad:
        print(line)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped", flush=True)
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
