"""Worker of bench/compare (protocol: engines.Worker) for vLLM: MODEL THREADS DTYPE."""
import json
import os
import random
import sys
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the engine in this process, as a library is used

from vllm import LLM, SamplingParams  # noqa: E402


def measure(engine, vocab, sequences, prompt, generate):
    params = SamplingParams(temperature=0, max_tokens=generate + 1, ignore_eos=True, detokenize=False)
    started = time.perf_counter()
    for i in range(sequences):
        ids = [random.randrange(1000, vocab - 1000) for _ in range(prompt)]
        engine.add_request(f"{time.monotonic_ns()}-{i}", {"prompt_token_ids": ids}, params)
    counts, first, before = {}, None, 0
    while engine.has_unfinished_requests():
        for output in engine.step():
            counts[output.request_id] = len(output.outputs[0].token_ids)
        if first is None and len(counts) == sequences and min(counts.values()) > 0:
            first, before = time.perf_counter(), sum(counts.values())
    last = time.perf_counter()
    result = {"prefill_tokens_per_s": sequences * prompt / (first - started)}
    if generate:
        result["decode_tokens_per_s"] = (sum(counts.values()) - before) / (last - first)
    return result


def main():
    model, _, dtype = sys.argv[1:4]
    llm = LLM(model, dtype=dtype, max_model_len=4608, enable_prefix_caching=False, max_num_batched_tokens=2048, max_num_seqs=64)
    size = sum(os.path.getsize(os.path.join(model, name)) for name in os.listdir(model) if name.endswith(".safetensors"))
    print(json.dumps({"ready": True, "weight_bytes": size * (2 if dtype == "float32" else 1)}), flush=True)
    vocab = llm.llm_engine.model_config.get_vocab_size()
    for line in sys.stdin:
        print(json.dumps(measure(llm.llm_engine, vocab, *map(int, line.split()))), flush=True)


if __name__ == "__main__":
    main()
