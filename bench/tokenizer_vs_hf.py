#!/usr/bin/env python3
"""Octavo's tokenizer beside Hugging Face's `tokenizers`, both on one thread, in turns; medians of
CPU time, so that a busy machine is fair to both. HF without offsets (encode_batch_fast). Also compares the ids.

usage: tokenizer_vs_hf.py [--bench build/bench_tokenizer] [--rounds 7] [--fuzz N] TOKENIZER.json[.gz]...
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

    def ask(self, ids=False, **what):
        self.process.stdin.write(json.dumps({"ids": ids, **what}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def random_text(random, added):
    """Added tokens, words and odd characters in any order, so that each stands beside each."""
    parts = ["user", " user", "\nuser", "  user", "user ", "\u2029", "\t", "\u00a0", "e\u0301", "A\u030a", " ", "\n\n", "'s", "'LL", "1234", "\u0e44\u0e17\u0e22",
             "\u65e5\u672c", "\U0001f600", "\u200d", "\u2581", "x=y;", "HTTPServer", "<|", "|>", "<0x41>", "\u0130", "\u1e9b\u0323", "\ufb01", "\r\n", "/", "_"]
    text = ""
    for _ in range(random.randrange(1, 12)):
        kind = random.random()
        text += random.choice(added) if added and kind < 0.25 else random.choice(parts) if kind < 0.9 else chr(random.choice([random.randrange(1, 0xD800), random.randrange(0xE000, 0x1FB00)]))
    return text


def fuzz(args, reference, octavo, name):
    """Ids of random texts, and of each added token before and behind a word."""
    random = __import__("random").Random(args.seed)
    added = [t.content for t in reference.get_added_tokens_decoder().values()]
    texts = [text for t in added for text in (t + "user", t + " user", t + "\nuser", t + "  user", "user" + t)]
    texts += [random_text(random, added) for _ in range(args.fuzz)]
    different = [t for t in texts if octavo.ask(text=t, ids=True)["ids"] != reference.encode(t, add_special_tokens=False).ids]
    print(json.dumps({"tokenizer": name, "texts": len(texts), "different": len(different), "examples": different[:5]}), flush=True)


def compare(args, path, texts, folder):
    raw = gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()
    plain = os.path.join(folder, "tokenizer.json")
    open(plain, "wb").write(raw)
    start = time.process_time()
    reference = Tokenizer.from_str(raw.decode())
    hf_load = (time.process_time() - start) * 1e3
    octavo = Octavo(args.bench, plain)
    if args.fuzz:
        fuzz(args, reference, octavo, path.split("/")[-2])
        octavo.close()
        return
    for name, text in texts.items():
        file = os.path.join(folder, name)
        open(file, "w", encoding="utf-8", newline="").write(text)
        same = octavo.ask(file=file, ids=True)["ids"] == reference.encode(text, add_special_tokens=False).ids
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(octavo.ask(file=file)["seconds"])
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
    parser.add_argument("--fuzz", type=int, default=0, metavar="N", help="instead compare the ids of N random texts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("tokenizers", nargs="+")
    args = parser.parse_args()
    texts = {"english": english(), "code": code()}
    with tempfile.TemporaryDirectory() as folder:
        for path in args.tokenizers:
            compare(args, path, texts, folder)


if __name__ == "__main__":
    main()
