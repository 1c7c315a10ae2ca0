"""Writes the model files that every engine reads: one set of weights per model, as a Hugging Face folder and as GGUF.

Runs in the `tools` environment (numpy, gguf):
    python models.py random DEST TOKENIZER_FOLDER          a Llama of 1.1 G parameters with random weights, BF16
    python models.py gguf HF_FOLDER VOCAB.gguf DEST.gguf bf16|f16|q8_0|q4_0
The tokenizer's keys come from VOCAB.gguf, a GGUF of the same vocabulary. All matrices get the named format, the embedding too
(llama-quantize's --pure): its default recipe keeps a tied embedding in Q6_K, which is slower in llama.cpp.
"""
import json
import os
import pathlib
import shutil
import sys

import gguf
import numpy as np

# The shape of bench_model's dummy; the vocabulary is SmolLM2's, whose tokenizer it gets.
LLAMA_1G = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192, "vocab_size": 49152,
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
    "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "initializer_range": 0.02, "bos_token_id": 1, "eos_token_id": 2,
    "torch_dtype": "bfloat16",
}
LAYER_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
FILE_TYPES = {"bf16": "MOSTLY_BF16", "f16": "MOSTLY_F16", "q8_0": "MOSTLY_Q8_0", "q4_0": "MOSTLY_Q4_0"}


def shapes_of(config):
    """Published tensor names and shapes, in the order of the file."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        shapes = {
            "input_layernorm": (hidden,), "self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries), "post_attention_layernorm": (hidden,),
            "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
        }
        for name, shape in shapes.items():
            yield f"model.layers.{layer}.{name}.weight", shape
    yield "model.norm.weight", (hidden,)


def to_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_random(dest, tokenizer):
    """Normal weights of deviation 0.02, norms of one: sane activations, so that no path meets NaN or denormals."""
    dest = pathlib.Path(dest)
    part = dest.with_name(dest.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    (part / "config.json").write_text(json.dumps(LLAMA_1G, indent=1))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        if (pathlib.Path(tokenizer) / name).exists():
            shutil.copy(pathlib.Path(tokenizer) / name, part / name)
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes_of(LLAMA_1G):
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(1)
    with open(part / "model.safetensors", "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, shape in shapes_of(LLAMA_1G):
            norm = len(shape) == 1
            values = np.ones(shape, np.float32) if norm else 0.02 * random.standard_normal(shape, np.float32)
            out.write(to_bf16(values).tobytes())
    os.rename(part, dest)


def read_folder(folder):
    """Config, and (name, float32 array) one at a time."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
    path = pathlib.Path(folder) / "model.safetensors"
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)

    def tensors():
        for name, entry in header.items():
            if entry["dtype"] != "BF16":
                sys.exit(f"{path}: {name} is {entry['dtype']}, expected BF16")
            begin, end = entry["data_offsets"]
            raw = np.fromfile(path, np.uint16, (end - begin) // 2, offset=8 + size + begin)
            yield name, (raw.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])

    return config, tensors()


def interleave(weights, heads):
    """Rows of a head from Hugging Face's order (halves) to GGUF's (pairs)."""
    return weights.reshape(heads, 2, -1, weights.shape[1]).swapaxes(1, 2).reshape(weights.shape)


def gguf_name(name):
    for theirs, ours in (("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output")):
        if name.startswith(theirs):
            return ours + ".weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[rest.removesuffix('.weight')]}.weight"


def copy_vocabulary(writer, source):
    reader = gguf.GGUFReader(source)
    for key, field in reader.fields.items():
        if key.startswith("tokenizer."):
            value_type = field.types[0]
            sub_type = field.types[-1] if value_type == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), value_type, sub_type)


def write_gguf(folder, vocabulary, dest, kind):
    config, tensors = read_folder(folder)
    part = dest + ".part"
    writer = gguf.GGUFWriter(part, "llama")
    writer.add_name(pathlib.Path(folder).name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType[FILE_TYPES[kind]])
    copy_vocabulary(writer, vocabulary)
    matrix_type = gguf.GGMLQuantizationType[kind.upper()]
    for name, values in tensors:
        if ".q_proj" in name or ".k_proj" in name:
            heads = config["num_attention_heads" if ".q_proj" in name else "num_key_value_heads"]
            values = interleave(values, heads)
        if values.ndim == 1:
            writer.add_tensor(gguf_name(name), values)
        else:
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(values, matrix_type), raw_dtype=matrix_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.rename(part, dest)


if __name__ == "__main__":
    commands = {"random": (write_random, 2), "gguf": (write_gguf, 4)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands or len(sys.argv) != 2 + commands[sys.argv[1]][1]:
        sys.exit(__doc__)
    commands[sys.argv[1]][0](*sys.argv[2:])
