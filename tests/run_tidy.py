"""Runs clang-tidy over the sources of compile_commands.json (tests and benches left out), in parallel.

Files whose preprocessed input is unchanged since the last clean run are skipped by a stamp beside the build.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def check(build, path):
    result = subprocess.run(
        ["clang-tidy", "-p", str(build), "--quiet", str(path)], capture_output=True, text=True, check=False
    )
    return path, result.returncode, result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    files = sorted(
        {
            pathlib.Path(entry["file"])
            for entry in json.loads((args.build / "compile_commands.json").read_text())
            if "/src/" in entry["file"] and not entry["file"].endswith("_test.cc")
        }
    )
    # Stamp: every header and the file itself; coarse, but a changed header can change any file's verdict.
    headers = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for header in sorted((ROOT / "src").rglob("*")):
        if header.suffix in {".h", ".inl"}:
            headers.update(header.read_bytes())
    stamps = args.build / "tidy"
    stamps.mkdir(exist_ok=True)

    def stamp(path):
        return stamps / hashlib.sha256(headers.digest() + path.read_bytes()).hexdigest()

    todo = [path for path in files if not stamp(path).exists()]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for path, code, output in pool.map(lambda path: check(args.build, path), todo):
            if code == 0:
                stamp(path).touch()
            else:
                failed += 1
                print(output)
    print(f"clang-tidy: {len(files)} files, {len(todo)} checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
