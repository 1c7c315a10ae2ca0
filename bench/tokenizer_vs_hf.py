#!/usr/bin/env python3
"""Octavo's tokenizer beside Hugging Face's `tokenizers`, both on one thread, in turns; medians of
CPU time, so that a busy machine is fair to both. HF without offsets (encode_batch_fast). Also compares the ids.

usage: tokenizer_vs_hf.py [--bench build/bench_tokenizer] [--rounds 7] TOKENIZER.json[.gz]...
Needs `pip install tokenizers`. Texts: English (Python's manual and Debian's licences), Python source code.
"""
import argparse
import glob
import gzip
import json
import os
import statistics
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402  (after the environment)


def english():
    from pydoc_data import topics
    licences = [open(p, encoding="utf-8", errors="replace").read() for p in sorted(glob.glob("/usr/share/common-licenses/*"))]
    return "\n".join(list(topics.topics.values()) + licences)


def code(limit=2_000_000):
    out = ""
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
        out += open(path, encoding="utf-8").read()
        if len(out) > limit:
            break
    return out[:limit]


class Octavo:
    def __init__(self, bench, tokenizer):
        self.process = subprocess.Popen([bench, tokenizer, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_ms = json.loads(self.process.stdout.readline())["ms"]

    def ask(self, path, ids=False):
        self.process.stdin.write(json.dumps({"file": path, "ids": ids}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(args, path, texts, folder):
    raw = gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()
    plain = os.path.join(folder, "tokenizer.json")
    open(plain, "wb").write(raw)
    start = time.process_time()
    reference = Tokenizer.from_str(raw.decode())
    hf_load = (time.process_time() - start) * 1e3
    octavo = Octavo(args.bench, plain)
    for name, text in texts.items():
        file = os.path.join(folder, name)
        open(file, "w", encoding="utf-8", newline="").write(text)
        same = octavo.ask(file, ids=True)["ids"] == reference.encode(text, add_special_tokens=False).ids
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(octavo.ask(file)["seconds"])
            start = time.process_time()
            reference.encode_batch_fast([text], add_special_tokens=False)
            theirs.append(time.process_time() - start)
        size = len(text.encode()) / 1e6
        a, b = size / statistics.median(ours), size / statistics.median(theirs)
        print(json.dumps({"tokenizer": path.split("/")[-2], "text": name, "mb": round(size, 2), "ids_equal": same, "octavo_mb_per_s": round(a, 2),
                          "hf_mb_per_s": round(b, 2), "ratio": round(a / b, 2), "octavo_load_ms": round(octavo.load_ms), "hf_load_ms": round(hf_load)}), flush=True)
    octavo.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bench_tokenizer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("tokenizers", nargs="+")
    args = parser.parse_args()
    texts = {"english": english(), "code": code()}
    with tempfile.TemporaryDirectory() as folder:
        for path in args.tokenizers:
            compare(args, path, texts, folder)


if __name__ == "__main__":
    main()
