"""Starts an engine on a model file and measures cases: tokens per second of prefill and decode.

Only one engine runs at a time; each turn starts it anew, so that page placement and the like differ between rounds.
"""
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
TCMALLOC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")  # Debian: libtcmalloc-minimal4
LLAMA_FLAGS = ["-fa", "on", "-b", "2048", "-ub", "512"]


class Failed(Exception):
    """Why there is no figure: missing file or environment, crash, time-out. Reported in the table, never fatal."""


def tail_of(path, lines=3):
    text = pathlib.Path(path).read_text(errors="replace").strip().splitlines()
    for line in reversed(text):  # a Python traceback ends with its reason
        if "Error" in line or "error" in line:
            return line.strip()[-200:]
    return " / ".join(text[-lines:])[-300:] or "no output"


def stop(process):
    """Ends a process that we started, with its children (it leads its own group)."""
    for number in (signal.SIGCONT, signal.SIGTERM):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Context:
    """Where things are, and the settings that all engines share."""

    def __init__(self, build, cache, models, threads, isa, logs):
        self.build, self.cache, self.models, self.logs = build, cache, models, logs
        self.threads, self.isa = threads, isa

    def log(self, model, row, suffix=""):
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"{model}-{row.name.replace(' ', '-')}{suffix}.log"

    def environment(self, engine):
        env = dict(os.environ, OMP_NUM_THREADS=str(self.threads), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                   PYTHONUNBUFFERED="1")
        if engine == "vllm":  # as its CPU guide has it: threads bound, tcmalloc and Intel's OpenMP in front
            env.update(VLLM_CPU_OMP_THREADS_BIND=f"0-{self.threads - 1}", VLLM_CPU_KVCACHE_SPACE="2", VLLM_NO_USAGE_STATS="1",
                       DO_NOT_TRACK="1", VLLM_LOGGING_LEVEL="WARNING")
            libraries = [*TCMALLOC.parent.glob(TCMALLOC.name), *(self.cache / "vllm" / "lib").glob("libiomp5.so")]
            env["LD_PRELOAD"] = ":".join(map(str, libraries))
        if self.isa:
            env["OCTAVO_ISA"] = self.isa
        if self.isa == "avx2":  # PyTorch and oneDNN; llama.cpp has a build of its own; OpenVINO cannot be capped
            env.update(ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2", DNNL_MAX_CPU_ISA="AVX2")
            if engine == "vllm":
                env["PYTHONPATH"] = str(HERE / "cap_avx2")
        return env

    def python(self, engine):
        path = self.cache / engine / "bin" / "python"
        if not path.exists():
            raise Failed(f"no environment {path.parent.parent} (--prepare)")
        return str(path)

    def llama(self, program):
        folder = "llamacpp-avx2" if self.isa == "avx2" else "llamacpp"
        path = self.cache / folder / "bin" / program
        if not path.exists():
            raise Failed(f"no {path} (--prepare)")
        return str(path)

    def octavo(self, program):
        path = self.build / program
        if not path.exists():
            raise Failed(f"no {path}: build it")
        return str(path.resolve())

    def file(self, row, model):
        path = self.models / row.file.format(model=model)
        if not path.exists():
            raise Failed(f"no {path} (--prepare)")
        return str(path)


class LlamaCpp:
    """llama-batched-bench, one process per case: it warms up with a batch of 16, then times prompts and tokens apart."""

    def __init__(self, context, row, model):
        self.context, self.log = context, context.log(model, row)
        self.command = [context.llama("llama-batched-bench"), "-m", context.file(row, model), "-t", str(context.threads),
                        *LLAMA_FLAGS, "--output-format", "jsonl", *row.flags]
        self.weight_bytes = os.path.getsize(context.file(row, model))

    def measure(self, case, timeout):
        tokens = max(case.generate, 1)
        size = case.sequences * (case.prompt + tokens)
        command = self.command + ["-c", str(size + 256 * case.sequences), "-npp", str(case.prompt), "-ntg", str(tokens),
                                  "-npl", str(case.sequences)]
        with open(self.log, "a") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, process_group=0,
                                       env=self.context.environment("llama.cpp"))
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                stop(process)
                raise Failed(f"llama-batched-bench: more than {timeout:.0f} s") from None
        for line in output.splitlines():
            if line.startswith("{"):
                result = json.loads(line)
                return {"prefill": result["speed_pp"], "decode": result["speed_tg"]}
        raise Failed(f"llama-batched-bench ended with {process.returncode}: {tail_of(self.log)}")

    def close(self):
        pass


class Worker:
    """A process that loads a model and then answers "SEQUENCES PROMPT GENERATE" lines with JSON: bench_offline, worker_*.py."""

    def __init__(self, context, row, model, timeout=600):
        log = self.log = context.log(model, row)
        path = context.file(row, model)
        if row.engine == "octavo":
            command = [context.octavo("bench_offline"), path, "--no-enable-prefix-caching", "--kv-cache-memory-bytes", "1G",
                       "--max-num-batched-tokens", "2048", "--cpu-threads-bind", f"0-{context.threads - 1}", *row.flags]
        else:
            command = [context.python(row.engine), str(HERE / f"worker_{row.engine}.py"), path, str(context.threads), *row.flags]
        with open(log, "a") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                            process_group=0, env=context.environment(row.engine))
        try:
            self.weight_bytes = self._answer(timeout)["weight_bytes"]
            self._ask("1 32 4", timeout)  # warm-up
        except BaseException:
            self.close()
            raise

    def measure(self, case, timeout):
        answer = self._ask(f"{case.sequences} {case.prompt} {case.generate}", timeout)
        return {"prefill": answer["prefill_tokens_per_s"], "decode": answer.get("decode_tokens_per_s")}

    def _ask(self, text, timeout):
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"ended: {tail_of(self.log)}") from None
        return self._answer(timeout)

    def _answer(self, timeout):
        """The next line that is a JSON object: libraries print to standard output too."""
        until = time.monotonic() + timeout
        buffer = b""
        while time.monotonic() < until:
            if not select.select([self.process.stdout], [], [], 0.5)[0]:
                continue
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise Failed(f"ended with {self.process.wait()}: {tail_of(self.log)}")
            buffer += piece
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                if line.startswith(b"{"):
                    return json.loads(line)
        raise Failed(f"no answer within {timeout:.0f} s")

    def close(self):
        self.process.stdin.close()
        stop(self.process)


def start(context, row, model):
    return (LlamaCpp if row.engine == "llama.cpp" else Worker)(context, row, model)


@contextlib.contextmanager
def neighbour(context):
    """One niced-down busy process on the last of our CPUs. It shares the session of what is measured: with
    kernel.sched_autogroup_enabled Linux divides a CPU between sessions first, and nice counts only inside one."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], process_group=0,
                               preexec_fn=lambda: (os.nice(19), os.sched_setaffinity(0, {context.threads - 1})))
    try:
        yield
    finally:
        stop(process)


def limits(context):
    """Read bandwidth (bytes/s) and F32 multiply-add peak (FLOP/s) now: neighbours of a virtual machine let them vary."""
    out = {}
    for program in ("probe_bandwidth", "probe_flops"):
        command = [context.octavo(program), str(context.threads)]
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            result = json.loads(line)
            if "GB/s" in result:
                out["bandwidth"] = result["GB/s"] * 1e9
            elif result["isa"] == "avx2" and result["format"] == "f32":
                out["F32 FMA peak"] = result["GFLOP/s"] * 1e9
    return out
