"""Runs every fuzz target of a build folder, and ends with one line that counts them.

A build with clang has one libFuzzer program a target: each runs for --seconds, from the seeds (seeds.py) and what
earlier runs found; the corpus lives in the build folder, and so does the input of a finding. A build with g++ and
ASan can make fuzz_replay, which runs the seeds and a fixed number of mutations of each: --replay.
"""
import argparse
import os
import pathlib
import subprocess
import sys

from seeds import seeds

HERE = pathlib.Path(__file__).resolve().parent
SLOW_SECONDS = 10  # one input; more counts as a hang


def write_seeds(target, folder, golden):
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, data in seeds(target, golden):
        (folder / name).write_bytes(data)
        count += 1
    if count == 0:
        sys.exit(f"{target} has no seeds: add some to {HERE / 'seeds.py'}")


def fuzz(build, target, corpus, seconds):
    program = next(path for path in build.rglob(target) if path.is_file() and os.access(path, os.X_OK))
    return [program, corpus, f"-max_total_time={seconds}", "-rss_limit_mb=4096", f"-timeout={SLOW_SECONDS}",
            f"-artifact_prefix={build}/{target}-", "-print_final_stats=1"]


def replay(build, target, corpus, mutations):
    program = next(path for path in build.rglob("fuzz_replay") if path.is_file())
    return [program, target, str(mutations), *sorted(corpus.iterdir())]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=30, help="of each target")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--mutations", type=int, default=20, help="of each seed, in a replay")
    parser.add_argument("--only", nargs="*", help="names of targets")
    parser.add_argument("--shared", type=pathlib.Path, default=os.environ.get("OCTAVO_SHARED", HERE / "../../../shared"))
    args = parser.parse_args()
    passed = failed = 0
    for target in args.only or sorted(path.stem for path in HERE.glob("fuzz_*.cc")):
        corpus = args.build / ("seeds" if args.replay else "corpus") / target
        write_seeds(target, corpus, args.shared / "golden")
        command = (replay(args.build, target, corpus, args.mutations) if args.replay
                   else fuzz(args.build, target, corpus, args.seconds))
        limit = args.seconds + 10 * SLOW_SECONDS
        try:
            result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit, check=False)
            code, output = result.returncode, result.stdout + result.stderr
        except subprocess.TimeoutExpired as error:
            code, output = -1, f"no end after {limit} s\n{error.stderr or ''}"
        figures = {"number_of_executed_units": "?", "peak_rss_mb": "?"}
        for line in output.splitlines():
            words = line.replace("stat::", "").split()
            if len(words) == 2 and words[0].rstrip(":") in figures:
                figures[words[0].rstrip(":")] = words[1]
        print(f"{target}: exit code {code}, {figures['number_of_executed_units']} runs, "
              f"{figures['peak_rss_mb']} MB", flush=True)
        passed, failed = passed + (code == 0), failed + (code != 0)
        if code:
            print(output[-6000:])
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
