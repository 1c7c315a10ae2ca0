"""Runs clang-tidy over the sources of compile_commands.json (tests and benches left out), in parallel.

Files that were clean are skipped until they, a header of ours that they reach, their compile command or .clang-tidy
change: a stamp beside the build holds the hash of all these.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def check(build, path):
    result = subprocess.run(
        ["clang-tidy", "-p", str(build), "--quiet", str(path)], capture_output=True, text=True, check=False
    )
    return path, result.returncode, result.stdout


class Tree:
    """Our sources: contents, and who includes whom."""

    def __init__(self):
        self.contents, self.includes = {}, {}

    def read(self, path):
        if path not in self.contents:
            text = path.read_bytes()
            found = [(ROOT / "src" / name.decode(), path.parent / name.decode()) for name in INCLUDE.findall(text)]
            self.contents[path] = text
            self.includes[path] = [next((p for p in pair if p.exists()), None) for pair in found]
        return self.contents[path]

    def reached(self, path):
        """The file and all that it includes, directly or not, sorted."""
        seen, todo = set(), [path]
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            self.read(current)
            todo += [p for p in self.includes[current] if p]
        return sorted(seen)

    def stamp(self, path, command):
        total = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + command.encode())
        for part in self.reached(path):
            total.update(str(part.relative_to(ROOT)).encode() + b"\0" + self.read(part))
        return total.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="only name the files that would be checked")
    args = parser.parse_args()
    commands = {
        pathlib.Path(entry["file"]): entry["command"]
        for entry in json.loads((args.build / "compile_commands.json").read_text())
        if "/src/" in entry["file"] and not entry["file"].endswith("_test.cc")
    }
    stamps = args.build / "tidy"
    stamps.mkdir(exist_ok=True)
    tree = Tree()
    stamp = {path: stamps / tree.stamp(path, command) for path, command in commands.items()}
    todo = sorted(path for path in commands if not stamp[path].exists())
    if args.list:
        print("\n".join(str(path.relative_to(ROOT)) for path in todo))
        return 0
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for path, code, output in pool.map(lambda path: check(args.build, path), todo):
            if code == 0:
                stamp[path].touch()
            else:
                failed += 1
                print(output)
    print(f"clang-tidy: {len(commands)} files, {len(todo)} checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
