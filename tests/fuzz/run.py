"""Runs every fuzz target of a build folder for some seconds each, from seeds taken from the golden data.

Seeds are small files of the kind that the target reads, by its name; the corpus lives in the build folder.
"""
import argparse
import gzip
import pathlib
import subprocess
import sys

# target name -> globs below shared/golden
SEEDS = {
    "fuzz_safetensors": ["models/whisper-tiny-random/golden.safetensors", "models/gpt2/*.safetensors"],
    "fuzz_gguf": ["gguf/*.gguf"],
    "fuzz_hf_config": ["models/*/config.json", "quantised/*/config.json"],
    "fuzz_tokenizer_json": ["models/*/tokenizer.json", "gguf/tokenizer.json"],
    "fuzz_template": ["chat_templates/*.jinja", "tokenizers/*/chat_template.jinja"],
}
MAX_SEED_BYTES = 1 << 20


def seed(target, corpus, golden):
    for pattern in SEEDS.get(target, []):
        for path in golden.glob(pattern):
            data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            (corpus / f"{path.parent.name}-{path.name}").write_bytes(data[:MAX_SEED_BYTES])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--shared", type=pathlib.Path, required=True)
    args = parser.parse_args()
    targets = sorted(path for path in args.build.rglob("fuzz_*") if path.is_file() and path.suffix == "")
    if not targets:
        sys.exit(f"no fuzz targets in {args.build}")
    failed = 0
    for target in targets:
        corpus = args.build / "corpus" / target.name
        corpus.mkdir(parents=True, exist_ok=True)
        seed(target.name, corpus, args.shared / "golden")
        command = [target, corpus, f"-max_total_time={args.seconds}", "-rss_limit_mb=4096", "-timeout=20",
                   f"-artifact_prefix={args.build}/{target.name}-", "-print_final_stats=1"]
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        runs = [line for line in result.stderr.splitlines() if "number_of_executed_units" in line]
        print(f"{target.name}: exit {result.returncode} {' '.join(runs)}", flush=True)
        if result.returncode:
            failed += 1
            print(result.stderr[-5000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
