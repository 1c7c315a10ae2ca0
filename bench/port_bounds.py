"""Static bounds of the linear kernels on machines that are not here: port_bounds.py BUILD [--all].

Takes the innermost loop with the most products for a load or unpacking (that of large batches; the others are bound by memory)
from each kernel object's disassembly and counts its micro-operations by the execution ports that can take them. The bound of a loop is
the largest, over all sets of ports, of the micro-operations that can only go there divided by the number of the ports, or the
front end's. `limit` is the bound of the products alone, with their accumulation and the conversion and scaling of integer sums, so limit
/ bound is the fraction of the arithmetic's port limit that the loop could reach with all operands in L1: caches,
dependencies and what is outside the loop are not in it.

Ports and widths after uops.info and the vendors' optimisation manuals. A zmm operation on Zen 4 takes its pipe for two
cycles. AMX: a tile product 16 cycles, a tile load 16 lines on the load ports.
"""
import argparse
import itertools
import pathlib
import re
import subprocess

# Kind of micro-operation -> ports. Kinds: mul (float multiply-add), dot (integer multiply-add, VNNI), bf16, tile,
# iadd, logic, shift, shuffle, load, scalar. `width`: fused micro-operations a cycle. `zmm`: cycles of a 512-bit operation.
MACHINES = {
    "Haswell": dict(width=4, mul="01", dot="0", iadd="15", logic="015", shift="0", shuffle="5", load="23", scalar="0156"),
    "Skylake": dict(width=4, mul="01", dot="01", iadd="015", logic="015", shift="01", shuffle="5", load="23", scalar="0156"),
    "Golden Cove ymm": dict(width=6, mul="01", dot="01", iadd="015", logic="015", shift="01", shuffle="15", load="23B", scalar="0156A"),
    "Ice Lake server zmm": dict(width=5, mul="05", dot="05", iadd="05", logic="05", shift="0", shuffle="5", load="23", scalar="0156"),
    "Sapphire Rapids zmm": dict(width=6, mul="05", dot="05", bf16="05", iadd="05", logic="05", shift="0", shuffle="5", tile="5", load="23",
                                scalar="0156A"),
    # a to d: vector pipes 0 to 3; L and M: loads; w to z: ALUs
    "Zen 4": dict(width=6, mul="ab", dot="ad", bf16="ab", iadd="abcd", logic="abcd", shift="bc", shuffle="bc", load="LM", scalar="wxyz",
                  zmm=2),
}
LEVELS = {  # objects of a level -> machines
    "avx2": ["Haswell", "Skylake", "Zen 4"],
    "avx_vnni": ["Golden Cove ymm"],
    "avx512": ["Ice Lake server zmm", "Zen 4"],
    "avx512_vnni": ["Ice Lake server zmm", "Sapphire Rapids zmm", "Zen 4"],
    "avx512_bf16": ["Sapphire Rapids zmm", "Zen 4"],
    "amx": ["Sapphire Rapids zmm"],
}
PRODUCTS = {"mul": r"vfn?m(add|sub)\w+ps", "bf16": "vdpbf16ps", "dot": r"v(pmaddwd|pmaddubsw|pdp\w+)", "tile": "tdp\\w+"}
OTHERS = {
    "iadd": r"vp(add|sub|sign|abs)\w+", "logic": r"v(p?and|p?or|p?xor|pternlog)\w*", "shift": r"vps[rl][la][vwdq]+", "shuffle":
    r"v(pmov[sz]x\w+|perm\w+|pshuf\w+|punpck\w+|pack\w+|insert\w+|extract\w+)", "mul": r"v(mul|add|sub|cvt)\w+",
}


def kinds(text):
    """Micro-operations of an instruction: (kind, count), and whether it is a product or its accumulation."""
    name, _, operands = text.partition(" ")
    operands = operands.split("#")[0].strip()
    memory = "(" in operands
    if name.startswith("tileload"):
        return [("load", 16)], False
    for kind, pattern in PRODUCTS.items():
        if re.fullmatch(pattern, name):
            count = 16 if kind == "tile" else 1
            return [(kind, count)] + ([("load", 1)] if memory else []), True
    if name.startswith("prefetch"):
        return [("load", 1)], False
    if name.startswith(("vmov", "vbroadcast", "vpbroadcast", "vlddqu")):
        if memory and not operands.endswith(")"):  # a load: the memory operand comes first
            return [("load", 1)], False
        return ([("store", 1)] if memory else [] if name.startswith("vmov") else [("shuffle", 1)]), False
    for kind, pattern in OTHERS.items():
        if re.fullmatch(pattern, name):
            return [(kind, 1)] + ([("load", 1)] if memory else []), name.startswith(("vpadd", "vcvtdq2ps", "vmulps"))
    if name.startswith("j"):
        return [], False  # fused with the compare before it
    return [("scalar", 1)] + ([("load", 1)] if memory and not name.startswith("lea") else []), False


def bound(machine, operations, fused):
    """Cycles of one iteration."""
    ports = [(machine[kind], count) for kind, count in operations.items() if kind in machine]
    every = sorted(set("".join(p for p, _ in ports)))
    cycles = fused / machine["width"]
    for size in range(1, len(every) + 1):
        for chosen in itertools.combinations(every, size):
            cycles = max(cycles, sum(c for p, c in ports if set(p) <= set(chosen)) / size)
    return cycles


def loops(path):
    """Innermost loops of an object: lists of instruction texts."""
    code = []
    for line in subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\s+(.*)", line)
        if match:
            code.append((int(match[1], 16), " ".join(match[2].replace("{vex}", "").split())))
        elif line.startswith("Disassembly"):
            yield from innermost(code)
            code = []
    yield from innermost(code)


def innermost(code):
    end = 0  # index after the last loop: a backward jump further up belongs to an outer one
    index = {address: i for i, (address, _) in enumerate(code)}
    for i, (address, text) in enumerate(code):
        match = re.match(r"j\w+ ([0-9a-f]+) ", text)
        if match and int(match[1], 16) <= address:
            start = index.get(int(match[1], 16), i)
            if start >= end:
                yield [t for _, t in code[start:i + 1]]
            end = i + 1


def describe(machine, loop):
    wide = any("%zmm" in text for text in loop)
    factor = machine.get("zmm", 1) if wide else 1
    everything, products, fused = {}, {}, 0
    for text in loop:
        operations, product = kinds(text)
        fused += 8 if text.startswith("tileload") else bool(operations)
        for kind, count in operations:
            narrow = kind == "load" and re.search("prefetch|broadcast|1to16", text)
            count *= 1 if kind == "scalar" or narrow else factor
            everything[kind] = everything.get(kind, 0) + count
            if product and kind != "load":
                products[kind] = products.get(kind, 0) + count
    return everything, bound(machine, products, 0), bound(machine, everything, fused), fused


def products_of(loop):
    return sum(any(re.fullmatch(pattern, text.split()[0]) for pattern in PRODUCTS.values()) for text in loop)


def reuse(loop):
    """Products for an operation that fetches or unpacks operands; 0 if there are none."""
    fetching = ("load", "shuffle", "shift", "logic")
    return products_of(loop) / max(1, sum(count for text in loop for kind, count in kinds(text)[0] if kind in fetching))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="every loop with products, not the largest only")
    args = parser.parse_args()
    print("| kernel | machine | products | loads | micro-operations | limit, cycles | bound, cycles | of the limit |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for level, machines in LEVELS.items():
        for path in sorted((args.build / f"src/kernels/CMakeFiles/octavo_kernels_{level}.dir/{level}").glob("linear_*.o")):
            found = [loop for loop in loops(path) if reuse(loop)]
            best = max(map(reuse, found), default=0)
            chosen = max((loop for loop in found if reuse(loop) > 0.9 * best), key=products_of, default=None)
            for loop in found if args.all else [chosen] if chosen else []:
                for name in machines:
                    operations, limit, total, fused = describe(MACHINES[name], loop)
                    print(f"| {level}/{path.name[7:].split('.')[0]} | {name} | {products_of(loop)} | {operations.get('load', 0)} | {fused} "
                          f"| {limit:.1f} | {total:.1f} | {limit / total:.0%} |")


if __name__ == "__main__":
    main()
