"""What is compared, as data: model files, rows (an engine with a format), workloads and bars. A new format is a new line here."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    engine: str  # octavo, llama.cpp, vllm, openvino, transformers
    format: str
    bits: int  # class of formats that are compared with one another
    file: str  # below the models folder; {model} is 1b1 or smollm2
    flags: tuple = ()

    @property
    def name(self):
        return f"{self.engine} {self.format}"


# Their Q8_0 and Q4_0 files hold lm_head in 8 and 4 bits too: so do we, to read as many bytes.
WHOLE = ("--quantization-config", '{"ignore": []}')

ROWS = [
    Row("octavo", "BF16", 16, "{model}-hf"),
    Row("llama.cpp", "BF16", 16, "{model}-bf16.gguf"),
    Row("vllm", "BF16", 16, "{model}-hf", ("bfloat16",)),
    Row("vllm", "F32", 16, "{model}-hf", ("float32",)),
    Row("openvino", "BF16", 16, "{model}-ov-fp16", ("bf16",)),
    Row("openvino", "F32", 16, "{model}-ov-fp16", ("f32",)),
    Row("transformers", "BF16", 16, "{model}-hf", ("bfloat16",)),
    Row("transformers", "F32", 16, "{model}-hf", ("float32",)),
    Row("octavo", "W8A8", 8, "{model}-hf", ("--quantization", "int8", *WHOLE)),
    Row("octavo", "Q8_0", 8, "{model}-q8_0.gguf"),
    Row("llama.cpp", "Q8_0", 8, "{model}-q8_0.gguf"),
    Row("vllm", "W8A8", 8, "{model}-w8a8", ("bfloat16",)),
    Row("openvino", "INT8", 8, "{model}-ov-int8", ("bf16",)),
    Row("octavo", "W4A8", 4, "{model}-hf", ("--quantization", "int4", *WHOLE)),
    Row("octavo", "Q4_0", 4, "{model}-q4_0.gguf"),
    Row("llama.cpp", "Q4_0", 4, "{model}-q4_0.gguf"),
    Row("octavo", "Q4_K_M", 4, "{model}-q4_k_m.gguf"),
    Row("llama.cpp", "Q4_K_M", 4, "{model}-q4_k_m.gguf"),
    Row("openvino", "INT4", 4, "{model}-ov-int4", ("bf16",)),
]


def row_named(name):
    return next(row for row in ROWS if row.name == name)


# Multiply-adds of the matrices a prompt token of the 1.1 G model needs, twice; the last layer's MLP and the head run for one row.
PREFILL_FLOPS_1B1 = 2 * (16 * (2 * 2048 * 2048 + 2 * 2048 * 512) + 15 * 3 * 2048 * 8192)


@dataclass(frozen=True)
class Case:
    """Random prompts at once, then greedy tokens: what one run of an engine does."""
    sequences: int
    prompt: int
    generate: int
    neighbour: bool


@dataclass(frozen=True)
class Workload:
    name: str
    sequences: int
    prompt: int
    generate: int  # 0: prefill is what counts
    quick: tuple = ()  # engines that --quick measures
    neighbour: bool = False  # a busy process of nice 19 is pinned to the last CPU

    @property
    def phase(self):
        return "decode" if self.generate else "prefill"


WORKLOADS = [
    Workload("decode 1", 1, 128, 32, quick=("octavo", "llama.cpp")),
    Workload("decode 4", 4, 32, 32),
    Workload("decode 16", 16, 16, 24, quick=("octavo", "llama.cpp")),
    Workload("decode 64", 64, 16, 16),
    Workload("decode 1 at 512", 1, 512, 32),
    Workload("decode 1 at 4096", 1, 4096, 32),
    Workload("decode 16 at 512", 16, 512, 96),
    Workload("prefill 128", 1, 128, 0),
    Workload("prefill 512", 1, 512, 0, quick=("octavo", "llama.cpp")),
    Workload("prefill 2048", 1, 2048, 0),
    Workload("decode 1, neighbour", 1, 32, 24, quick=("octavo",), neighbour=True),
]


def cases_of(workloads):
    """The fewest runs that show all: a prefill is timed on the way to a decode."""
    longest = {}
    for w in workloads:
        key = (w.sequences, w.prompt, w.neighbour)
        longest[key] = max(w.generate, longest.get(key, 0))
    return [Case(sequences, prompt, generate, neighbour) for (sequences, prompt, neighbour), generate in longest.items()]


@dataclass(frozen=True)
class Load:
    """One run of the serving client."""
    name: str
    rate: str  # requests a second, or inf
    requests: int
    dataset: tuple  # flags of `octavo bench serve`
    quick: tuple = ()  # rows that --quick measures


RANDOM = ("--dataset-name", "random", "--random-input-len", "128", "--random-output-len", "64")
SHARED = ("--dataset-name", "prefix_repetition", "--prefix-repetition-num-prefixes", "2", "--prefix-repetition-prefix-len", "512",
          "--prefix-repetition-suffix-len", "64", "--prefix-repetition-output-len", "64")
PEERS = ("octavo BF16", "llama.cpp BF16", "vllm BF16")
LOADS = [
    Load("saturated", "inf", 32, RANDOM, quick=PEERS + ("octavo W8A8", "octavo W4A8")),
    Load("saturated, shared prefix", "inf", 32, SHARED),
    Load("at rate", "2", 12, RANDOM, quick=PEERS),
    Load("at rate, shared prefix", "2", 12, SHARED),
]
SERVING_CONCURRENCY = 16
SERVING_ROWS = [*PEERS, "vllm F32", "octavo W8A8", "octavo W4A8", "octavo Q8_0", "llama.cpp Q8_0", "octavo Q4_0", "llama.cpp Q4_0"]


@dataclass(frozen=True)
class Bar:
    """Ours against a limit or against a peer: the median over rounds of the ratio must reach `least` (0: only reported)."""
    model: str
    ours: str
    what: str  # a workload, or load: metric
    against: str  # a row, "bandwidth" or "F32 FMA peak"
    least: float = 0
    note: str = ""
    base: str = ""  # what is taken of `against`, if not the same


def _bars():
    for ours, share in (("BF16", 0.88), ("W8A8", 0.85), ("W4A8", 0.80)):
        yield Bar("1b1", f"octavo {ours}", "decode 1", "bandwidth", share)
    yield Bar("1b1", "octavo BF16", "prefill 512", "F32 FMA peak", 0.85)
    pairs = {"BF16": "BF16", "W8A8": "Q8_0", "Q8_0": "Q8_0", "W4A8": "Q4_0", "Q4_0": "Q4_0", "Q4_K_M": "Q4_K_M"}
    for workload, least in (("decode 1", {"BF16": 1.2, "W8A8": 1.2, "Q8_0": 1.2, "W4A8": 1.2, "Q4_0": 1.2, "Q4_K_M": 0}),
                            ("prefill 512", {"BF16": 1.5, "W8A8": 1.6, "Q8_0": 1.6, "W4A8": 1.6, "Q4_0": 1.6, "Q4_K_M": 0}),
                            ("decode 16", {"BF16": 1.8, "W8A8": 1.8, "Q8_0": 1.8, "W4A8": 1.6, "Q4_0": 1.6, "Q4_K_M": 0})):
        for ours, theirs in pairs.items():
            yield Bar("1b1", f"octavo {ours}", workload, f"llama.cpp {theirs}", least[ours])
    for ours in pairs:
        yield Bar("1b1", f"octavo {ours}", "decode 1, neighbour", f"octavo {ours}", 0.6, base="decode 1")
    for ours in ("W8A8", "W4A8"):
        yield Bar("1b1", f"octavo {ours}", "prefill 512", "octavo BF16", 1.0)
    for peer, least in (("vllm BF16", 3.0), ("vllm F32", 3.0), ("llama.cpp BF16", 1.8)):
        yield Bar("smollm2", "octavo BF16", "saturated: output tokens/s", peer, least)
        yield Bar("smollm2", "octavo BF16", "at rate: median TTFT", peer, 1.0)
        yield Bar("smollm2", "octavo BF16", "at rate: median TPOT", peer, 1.0)
    for ours, base, published in (("W8A8", "BF16", "+88 % throughput, -45 % TPOT, -54 % TTFT"),
                                  ("W4A8", "W8A8", "+29 %, -26 %, -18 %")):
        note = f"many-core Arm, published: {published}"
        yield Bar("1b1", f"octavo {ours}", "decode 1", f"octavo {base}", 0, note)
        for what in ("output tokens/s", "median TPOT", "median TTFT"):
            yield Bar("smollm2", f"octavo {ours}", f"saturated: {what}", f"octavo {base}", 0, note)


BARS = list(_bars())
