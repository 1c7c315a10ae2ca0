"""Checks the include rule of DESIGN.md: a file includes only lower layers or its own folder.

Siblings of one number never include each other; main.cc alone may include everything. Prints each offence and exits 1.
"""
import pathlib
import re
import sys

LAYERS = {
    "base": 0,
    "kernels": 1,
    "comm": 1,
    "ops": 2,
    "load": 2,
    "text": 2,
    "media": 2,
    "model": 3,
    "engine": 4,
    "frontend": 5,
    "server": 6,
    "python": 6,
    "cli": 6,
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# A kernel folder sees the table, its own vec.h, the generic algorithms and nothing else of ours; an extension
# (avx512_bf16) sees its base's folder (avx512) too.
NOT_AN_ISA = {"generic"}
BASE = {"avx_vnni": "avx2", "amx": "avx512"}


def offences(root):
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".h", ".cc", ".inl"}:
            continue
        parts = path.relative_to(root).parts
        if len(parts) == 1:
            continue  # main.cc, the composition root
        own = parts[0]
        if own not in LAYERS:
            yield f"{path}: folder '{own}' is not a layer of DESIGN.md"
            continue
        isa = parts[1] if own == "kernels" and len(parts) > 2 and parts[1] not in NOT_AN_ISA else None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1).split("/")
            if len(target) == 1 or target[0] not in LAYERS:
                yield f"{path}:{number}: include \"{match.group(1)}\" by its path from src/"
            elif target[0] != own and LAYERS[target[0]] >= LAYERS[own]:
                yield f"{path}:{number}: {own} ({LAYERS[own]}) includes {target[0]} ({LAYERS[target[0]]})"
            elif isa and target[0] == "kernels" and len(target) > 2 and target[1] not in {isa, BASE.get(isa, isa.split("_")[0]), "generic"}:
                yield f"{path}:{number}: kernels/{isa} includes {match.group(1)}"
            elif isa and target[0] != "kernels":
                yield f"{path}:{number}: a kernel includes {match.group(1)}"


def main():
    found = list(offences(pathlib.Path(__file__).resolve().parent.parent / "src"))
    for line in found:
        print(line)
    print(f"layers: {len(found)} offences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
