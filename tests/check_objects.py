"""Checks the object files of a build: check_objects.py BUILD.

1. Kernel objects (one folder of src/kernels each, with its own -m flags) have no weak or unique symbol. Two objects that
   share an inline function let the linker keep either copy, and so put AVX-512 code into the baseline.
2. They refer to nothing outside the kernel tables but memcpy and its like: no allocation, no exceptions, no containers.
3. Code outside those folders has no instruction beyond the x86-64 baseline (a VEX or EVEX register), so that a CPU
   without AVX2 reaches select.cc and gets the scalar table, not SIGILL (BL-45).
"""
import pathlib
import re
import subprocess
import sys

# Of the C and compiler libraries, and of what sanitizers add.
ALLOWED = re.compile(r"(mem(cpy|move|set|cmp)|_GLOBAL_OFFSET_TABLE_|_stack_chk_fail|__popcount[sd]i2|_(asan|ubsan|tsan|sanitizer|gcov).*"
                     r"|(tanh|exp|expm1|log|erf|pow|sqrt|fma|cos|sin|floor|ceil|rint|nearbyint|ldexp)f?)$")
WIDE = re.compile(r"%[yz]mm\d|\bv(mov|add|mul|pxor|xorp|cvt|broadcast|zeroupper)\w*")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbol_faults(path):
    defined_elsewhere = re.compile(r"octavo::kernels::")
    for line in run("nm", "-C", path).splitlines():
        kind, name = line[17:18], line[19:]
        if kind in "WVu" and not name.startswith("DW.ref."):
            yield f"{path}: weak symbol {name}"
        if kind == "U" and not ALLOWED.match(name) and not defined_elsewhere.match(name):
            yield f"{path}: needs {name}"


def wide_faults(path):
    function = "?"
    reported = set()
    for line in run("objdump", "-d", "--no-show-raw-insn", path).splitlines():
        if line.endswith(">:"):
            function = line[line.find("<") + 1:-2]
        elif WIDE.search(line.split("#")[0].partition("\t")[2]) and function not in reported:
            reported.add(function)
            yield f"{path}: {function} uses {line.partition(':')[2].strip()}"


def main():
    build = pathlib.Path(sys.argv[1])
    kernels, baseline = [], []
    for path in sorted(build.rglob("*.o")):
        folder = next((p for p in path.parts if p.endswith(".dir")), "")
        if "_deps" in path.parts or folder.startswith(("bench", "fuzz_")) or folder.endswith("_tests.dir"):
            continue
        is_kernel = folder.startswith("octavo_kernels_")
        (kernels if is_kernel else baseline).append(path)
        if is_kernel and folder == "octavo_kernels_scalar.dir":
            baseline.append(path)
    if not kernels:
        sys.exit(f"objects: no kernel objects in {build}")
    faults = [fault for path in kernels for fault in symbol_faults(path)]
    if run("uname", "-m").strip() == "x86_64":
        faults += [fault for path in baseline for fault in wide_faults(path)]
    for fault in faults:
        print(fault)
    print(f"objects: {len(kernels)} of kernels, {len(baseline)} of the baseline, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
