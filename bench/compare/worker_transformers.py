"""Worker of bench/compare (protocol: engines.Worker) for transformers: MODEL THREADS DTYPE."""
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM, StoppingCriteria


class Clock(StoppingCriteria):
    """Called after each token; never stops."""

    def __init__(self):
        self.times = []

    def __call__(self, ids, scores, **kwargs):
        self.times.append(time.perf_counter())
        return torch.zeros(ids.shape[0], dtype=torch.bool)


def measure(model, sequences, prompt, generate):
    ids = torch.randint(1000, model.config.vocab_size - 1000, (sequences, prompt))
    clock = Clock()
    started = time.perf_counter()
    model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=generate + 1, min_new_tokens=generate + 1,
                   stopping_criteria=[clock], pad_token_id=0)
    result = {"prefill_tokens_per_s": sequences * prompt / (clock.times[0] - started)}
    if generate:
        result["decode_tokens_per_s"] = sequences * generate / (clock.times[-1] - clock.times[0])
    return result


def main():
    path, threads, dtype = sys.argv[1:4]
    torch.set_num_threads(int(threads))
    model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), attn_implementation="sdpa").eval()
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    print(json.dumps({"ready": True, "weight_bytes": size}), flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            print(json.dumps(measure(model, *map(int, line.split()))), flush=True)


if __name__ == "__main__":
    main()
