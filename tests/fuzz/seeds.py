"""First inputs of every fuzz target: small files of the golden data, and texts that a parser's author would try.

seeds(target, golden) gives pairs of a name and bytes. Nothing here is random: the replay of a build with g++ must run
the same inputs each time.
"""
import gzip
import json
import struct

MAX_BYTES = 256 << 10  # a larger file would leave a fuzzer too few runs

# target -> globs below shared/golden
FILES = {
    "fuzz_safetensors": ["models/whisper-tiny-random/golden.safetensors", "gguf/llama-q8_0.golden.safetensors"],
    "fuzz_gguf": ["gguf/llama-q4_0.gguf", "gguf/llama-q5_0.gguf"],
    "fuzz_hf_config": ["models/*/config.json", "quantised/*/config.json", "models/gpt2/generation_config.json",
                       "models/llama-*/tokenizer_config.json"],
    "fuzz_tokenizer_json": ["models/*/tokenizer.json", "gguf/tokenizer.json"],
    "fuzz_template": ["chat_templates/*.jinja", "tokenizers/*/chat_template.jinja"],
    "fuzz_safetensors_index": ["models/llama3-rope-sharded/model.safetensors.index.json"],
}

TEXTS = {
    "fuzz_http": [
        b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET //v1//models?x=%31 HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
        b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n",
        b"HEAD http://host:1/p%2Fq#f HTTP/1.0\r\nConnection: keep-alive\r\n\r\nOPTIONS * HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"b" * 3000 + b"\r\n\r\n",
    ],
    "fuzz_api": [
        b'/v1/completions\n{"model":"fake","prompt":"hello","max_tokens":4,"stream":true,"logprobs":2,"echo":true,'
        b'"stream_options":{"include_usage":true,"continuous_usage_stats":true}}',
        b'/v1/completions\n{"prompt":[[1,2,3],[4]],"n":2,"temperature":0.7,"top_p":0.9,"top_k":3,"min_p":0.1,"seed":1,'
        b'"stop":["a","bc"],"stop_token_ids":[5],"logit_bias":{"3":-5.5},"min_tokens":1,"ignore_eos":true,'
        b'"prompt_logprobs":1,"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.2}',
        b'/v1/chat/completions\n{"messages":[{"role":"system","content":"s"},{"role":"user","content":"h"},'
        b'{"role":"assistant"}],"max_completion_tokens":3,"temperature":0,"logprobs":true,"top_logprobs":2,"stream":true,'
        b'"chat_template_kwargs":{"a":[1]},"reasoning_effort":"low","response_format":{"type":"text"}}',
        b'/v1/chat/completions\n{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}],'
        b'"tools":[{"type":"function"}],"tool_choice":"none","allowed_token_ids":[1,2],"bad_words":["x"]}',
        b'/tokenize\n{"prompt":"abc","return_token_strs":true}',
        b'/tokenize\n{"messages":[{"role":"user","content":"x"}],"add_generation_prompt":false,"continue_final_message":true}',
        b'/detokenize\n{"tokens":[1,2,96,95]}',
        b'/v1/completions\n{"prompt":"a","truncate_prompt_tokens":-1,"cache_salt":"s","priority":-3,"stream_interval":2}',
    ],
    "fuzz_thread_binding": [
        bytes([0xff, 0, 0, 0]) + b"auto", bytes([0x2f, 1, 0, 3]) + b"auto", bytes([0x48, 0, 5, 0]) + b"nobind",
        bytes([0x2f, 1, 0, 0]) + b"0-3,6|4-5", bytes([0x0c, 0, 0, 0]) + b"3",
    ],
    "fuzz_cli_files": [
        b"model: org/name\nport: 12\nserved_model_name: [a, b]\nenable-prefix-caching: false\n"
        b"override-generation-config: {temperature: 0.5, note: '7', deep: [1, {x: null}]}\nunset:\n",
        b"a: &x [*x, {b: *x}]\nc: {d: *x}\n",
        b'[{"conversations":[{"from":"human","value":"hello there"},{"value":"and a reply"}]},{"prompt":"p"}]',
        b'{"prompt":"one","output_tokens":7}\n\n{"prompt":"two"}\r\n',
        b': comment\n\ndata: {"a":1}\r\n\r\ndata: [DONE]\n\nevent: x\n',
    ],
    "fuzz_hub": [
        b'org/name\n{"sha":"' + b"0" * 40 + b'","siblings":[{"rfilename":"config.json"},{"rfilename":"model.safetensors"},'
        b'{"rfilename":"../../etc/passwd.safetensors"},{"rfilename":"additional_chat_templates/tool.jinja"}]}',
        b'org/name:Q4_K_M\n{"siblings":[{"rfilename":"a-Q4_K_M-00001-of-00002.gguf"},'
        b'{"rfilename":"a-Q4_K_M-00002-of-00002.gguf"},{"rfilename":"d/b.q8_0.gguf"}]}',
        b'org/name/x.gguf\n{"siblings":[{"rfilename":"x.gguf"}]}',
    ],
    "fuzz_tokenizer_text": ["Hello, wörld! 12345  \n\t it's 😀 日本語 <|x|>".encode(), b"aaaa the the <0x0A> \xff\xf0\x9f"],
}


def from_files(target, golden):
    for pattern in FILES.get(target, []):
        for path in sorted(golden.glob(pattern)):
            data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            if len(data) <= MAX_BYTES:
                yield f"{path.parent.name}-{path.name}", data


def layer(folder, name):
    """Input of fuzz_quant: config and the tensors of one layer, renamed to "m"."""
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    config = json.loads((folder / "config.json").read_text())
    kept, out = {}, b""
    for key, tensor in header.items():
        if key.startswith(name + "."):
            begin, end = tensor["data_offsets"]
            kept["m" + key[len(name):]] = dict(tensor, data_offsets=[len(out), len(out) + end - begin])
            out += body[begin:end]
    n = config["num_key_value_heads"] * config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    text = {"n": n, "k": config["hidden_size"], "quantization_config": config["quantization_config"]}
    new_header = json.dumps(kept).encode()
    return json.dumps(text).encode() + b"\0" + struct.pack("<Q", len(new_header)) + new_header + out


def quantised_layers(golden):
    for folder in sorted((golden / "quantised").iterdir()):
        if (folder / "model.safetensors").exists():
            yield folder.name, layer(folder, "model.layers.0.self_attn.k_proj")


def small_configs(golden):
    """Configs of the golden models with sizes that fuzz_model_config runs."""
    sizes = {"hidden_size": 64, "n_embd": 64, "intermediate_size": 96, "ffn_dim": 96, "n_inner": 96, "vocab_size": 32,
             "num_hidden_layers": 2, "n_layer": 2, "num_attention_heads": 4, "n_head": 4, "num_key_value_heads": 2,
             "head_dim": 16, "word_embed_proj_dim": 32, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    for path in sorted((golden / "models").glob("*/config.json")):
        config = json.loads(path.read_text())
        config.update({key: value for key, value in sizes.items() if key in config})
        if "layer_types" in config:
            config["layer_types"] = config["layer_types"][:2]
        yield path.parent.name, json.dumps(config).encode()


def seeds(target, golden):
    yield from from_files(target, golden)
    for i, text in enumerate(TEXTS.get(target, [])):
        yield f"text-{i}", text
    if target == "fuzz_quant":
        yield from quantised_layers(golden)
    if target == "fuzz_model_config":
        yield from small_configs(golden)
