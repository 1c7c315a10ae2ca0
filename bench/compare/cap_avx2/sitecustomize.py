"""On PYTHONPATH for vLLM under --isa avx2: it asks torch.cpu which of its kernel libraries to load, and no variable caps that."""
import torch

for _name in ("_is_avx512_supported", "_is_avx512_bf16_supported", "_is_amx_tile_supported"):
    if hasattr(torch.cpu, _name):
        setattr(torch.cpu, _name, lambda: False)
