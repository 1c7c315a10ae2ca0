"""Worker of bench/compare (protocol: engines.Worker) for OpenVINO GenAI: FOLDER THREADS f32|bf16."""
import json
import pathlib
import random
import sys
import time

import numpy as np
import openvino
import openvino_genai


def measure(pipeline, vocab, sequences, prompt, generate):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = generate + 1
    config.ignore_eos = True
    config.do_sample = False
    started = time.perf_counter()
    handles = []
    for i in range(sequences):
        ids = np.array([[random.randrange(1000, vocab - 1000) for _ in range(prompt)]], np.int64)
        handles.append(pipeline.add_request(i, openvino.Tensor(ids), config))
    counts, first, before = [0] * sequences, None, 0
    while pipeline.has_non_finished_requests():
        pipeline.step()
        for i, handle in enumerate(handles):
            while handle.can_read():
                counts[i] += sum(len(output.generated_ids) for output in handle.read().values())
        if first is None and min(counts) > 0:
            first, before = time.perf_counter(), sum(counts)
    last = time.perf_counter()
    result = {"prefill_tokens_per_s": sequences * prompt / (first - started)}
    if generate:
        result["decode_tokens_per_s"] = (sum(counts) - before) / (last - first)
    return result


def main():
    folder, threads, precision = sys.argv[1:4]
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 2
    scheduler.max_num_batched_tokens = 2048
    scheduler.enable_prefix_caching = False
    pipeline = openvino_genai.ContinuousBatchingPipeline(
        folder, scheduler, "CPU", {"INFERENCE_NUM_THREADS": int(threads), "INFERENCE_PRECISION_HINT": precision})
    vocab = json.loads((pathlib.Path(folder) / "config.json").read_text())["vocab_size"]
    size = (pathlib.Path(folder) / "openvino_model.bin").stat().st_size
    print(json.dumps({"ready": True, "weight_bytes": size}), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(pipeline, vocab, *map(int, line.split()))), flush=True)


if __name__ == "__main__":
    main()
