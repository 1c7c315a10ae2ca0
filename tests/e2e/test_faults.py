"""Faults known from other servers (BL-NN: shared/reference/known_faults.md) that need the whole program."""
import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import time

import pytest
import requests
from conftest import BINARY, SHARED, TINY
from raw import connect, request

GOLDEN = SHARED / "golden"


def octavo(*args, **options):
    return subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True, timeout=120, check=False, **options)


def arrays(path):
    """The F32 and I32 tensors of a safetensors file, flat."""
    data = path.read_bytes()
    length, = struct.unpack_from("<Q", data)
    out = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if entry.get("dtype") in ("F32", "I32"):
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            out[name] = struct.unpack(f"<{(end - begin) // 4}{'f' if entry['dtype'] == 'F32' else 'i'}", data[begin:end])
    return out


# BL-18: what lm-eval's local-completions sends and reads, against the stored float32 results of transformers.
@pytest.mark.parametrize("max_tokens", [0, 1])
def test_likelihoods_as_an_evaluation_asks_for_them(start, max_tokens):
    server = start("--dtype", "float32")
    prompts = json.loads((TINY / "golden.json").read_text())["prompts"]
    stored = arrays(TINY / "golden.safetensors")
    names = [name for name in prompts if len(prompts[name]["ids"]) > 1]
    for _ in range(2):  # the second time everything is in the prefix cache
        body = {"model": server.name, "prompt": [prompts[name]["ids"] for name in names], "temperature": 0, "max_tokens": max_tokens,
                "logprobs": 1, "echo": True, "seed": 1234}
        out = server.post("/v1/completions", body).json()
        choices = sorted(out["choices"], key=lambda choice: choice["index"])
        assert len(choices) == len(names) and out["usage"]["completion_tokens"] == max_tokens * len(names)
        for name, choice in zip(names, choices):
            ids, logprobs = prompts[name]["ids"], choice["logprobs"]
            assert len(logprobs["tokens"]) == len(logprobs["token_logprobs"]) == len(logprobs["top_logprobs"]) == len(ids) + max_tokens
            assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
            assert logprobs["token_logprobs"][1:len(ids)] == pytest.approx(stored[name + ".prompt_logprobs"], abs=2e-4)
            for context in (1, len(ids) // 2, len(ids) - 1):
                end = len(ids)
                score = sum(logprobs["token_logprobs"][context:end])
                assert score == pytest.approx(sum(stored[name + ".prompt_logprobs"][context - 1:]), abs=2e-3)
                greedy = all(value == max(top.values()) for value, top in zip(logprobs["token_logprobs"][context:end], logprobs["top_logprobs"][context:end]))
                assert greedy == all(rank == 1 for rank in stored[name + ".prompt_ranks"][context - 1:])
            if max_tokens:
                assert logprobs["token_logprobs"][-1] == pytest.approx(prompts[name]["greedy"]["logprobs"][0], abs=2e-4)


# BL-18: whether a token was the greedy one shows even where the best looks like it (two lone bytes).
def test_likelihoods_of_tokens_that_look_alike(tiny):
    lone = [i for i in range(505) if tiny.post("/detokenize", {"tokens": [i]}).json()["prompt"] == "\ufffd"]
    assert len(lone) > 50
    shown = 0
    for start in range(0, len(lone), 60):
        ids = lone[start:start + 60] * 2
        body = {"prompt": ids, "echo": True, "logprobs": 1, "max_tokens": 1, "prompt_logprobs": 1, "allowed_token_ids": lone, "temperature": 0}
        choice = tiny.post("/v1/completions", body).json()["choices"][0]
        for i in range(1, len(ids)):
            top, value = choice["logprobs"]["top_logprobs"][i], choice["logprobs"]["token_logprobs"][i]
            assert (value == max(top.values())) == (choice["prompt_logprobs"][i][str(ids[i])]["rank"] == 1)
            shown += len(top) == 1 and top["\ufffd"] > value
    assert shown > 0


# BL-18: the same texts as strings, as ids and one by one; every form of prompt and every length.
def test_likelihoods_do_not_depend_on_the_form_of_the_prompt(tiny):
    texts = ["Paris is in France", "Paris is in Peru", "a", "naïve 日本 🌶"]
    ids = [tiny.post("/tokenize", {"prompt": text}).json()["tokens"] for text in texts]

    def score(prompt, max_tokens, **more):
        body = {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, **more}
        reply = tiny.post("/v1/completions", body)
        assert reply.status_code == 200, reply.text
        return reply.json()["choices"]

    for max_tokens in (0, 1, 3):
        whole = score(texts, max_tokens)
        assert [c["text"][:len(t)] for c, t in zip(whole, texts)] == texts
        if max_tokens == 0:
            assert [c["text"] for c in whole] == texts and all(c["finish_reason"] == "length" for c in whole)
        by_ids = score(ids, max_tokens)
        assert [(c["text"], c["logprobs"]) for c in by_ids] == [(c["text"], c["logprobs"]) for c in whole]
        for text, tokens, choice in zip(texts, ids, whole):
            for single in (text, tokens, [text], [tokens]):
                one, = score(single, max_tokens)
                assert (one["text"], one["logprobs"]) == (choice["text"], choice["logprobs"])
        first = [{key: value[:len(tokens)] for key, value in c["logprobs"].items()} for c, tokens in zip(whole, ids)]
        zero = [c["logprobs"] for c in score(texts, 0)]
        assert first == zero  # what is generated does not change the scores of the prompt
    without = score(texts, 0)
    no_logprobs = tiny.post("/v1/completions", {"prompt": texts, "echo": True, "max_tokens": 0}).json()["choices"]
    assert [c["text"] for c in no_logprobs] == [c["text"] for c in without] and all(c["logprobs"] is None for c in no_logprobs)
    streamed = tiny.post("/v1/completions", {"prompt": texts[0], "echo": True, "max_tokens": 0, "logprobs": 1, "stream": True}).text
    events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    assert "".join(c["text"] for e in events for c in e["choices"]) == texts[0] and streamed.endswith("data: [DONE]\n\n")
    assert [v for e in events for c in e["choices"] for v in (c["logprobs"] or {"token_logprobs": []})["token_logprobs"]] == without[0]["logprobs"]["token_logprobs"]


@pytest.fixture
def llama3(tmp_path):
    """Llama 3.1's own tokenizer and chat template around a tiny model of random weights."""
    source = GOLDEN / "tokenizers/llama3_1"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes(gzip.decompress((source / (name + ".gz")).read_bytes()))
    shutil.copy(source / "chat_template.jinja", tmp_path / "chat_template.jinja")
    (tmp_path / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 128256, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128009}))
    return tmp_path


# BL-05: one BOS on every way in, over HTTP and offline.
def test_bos_once(start, llama3):
    bos, dummy = 128000, ["--load-format", "dummy", "--kv-cache-memory-bytes", "64M"]
    server = start("--load-format", "dummy", model=llama3)
    golden = json.loads(gzip.decompress((GOLDEN / "tokenizers/llama3_1/chat_golden.json.gz").read_bytes()))
    items = [i for i in golden["items"] if "ids" in i and not i.get("tools") and i.get("kwargs") in (None, {}, {"add_generation_prompt": True})
             and all(isinstance(m.get("content"), str) and m["role"] in ("system", "user", "assistant") for m in i["messages"])]
    assert items
    for item in items:
        generation = (item.get("kwargs") or {}).get("add_generation_prompt", False)
        ids = server.post("/tokenize", {"messages": item["messages"], "add_generation_prompt": generation}).json()["tokens"]
        assert ids == item["ids"] and ids.count(bos) == 1

    messages = [{"role": "user", "content": "hi"}]
    ids = server.post("/tokenize", {"messages": messages}).json()["tokens"]
    rendered = server.post("/detokenize", {"tokens": ids}).json()["prompt"]
    assert ids.count(bos) == 1 and rendered.startswith("<|begin_of_text|>")
    asked = {"max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    chat = server.post("/v1/chat/completions", {"messages": messages, **asked}).json()
    assert chat["prompt_token_ids"] == ids and chat["usage"]["prompt_tokens"] == len(ids)
    for add, expected in ((True, [bos] + ids), (False, ids)):
        raw = server.post("/v1/completions", {"prompt": rendered, "add_special_tokens": add, **asked}).json()
        assert raw["choices"][0]["prompt_token_ids"] == expected
    plain = {add: server.post("/v1/completions", {"prompt": "hi", "add_special_tokens": add, **asked}).json() for add in (True, False)}
    assert [plain[add]["usage"]["prompt_tokens"] for add in (True, False)] == [2, 1]

    once = octavo("run", llama3, *dummy, "-p", "hi", "-n", 8, "--temperature", 0, "--ignore-eos")
    assert f"[{len(ids)} prompt tokens" in once.stderr, once.stderr
    assert once.stdout.rstrip("\n") == chat["choices"][0]["message"]["content"].rstrip("\n")
    raw = octavo("run", llama3, *dummy, "-p", "hi", "--raw", "-n", 8, "--temperature", 0, "--ignore-eos")
    assert "[2 prompt tokens" in raw.stderr and raw.stdout.rstrip("\n") == plain[True]["choices"][0]["text"].rstrip("\n")
    talk = octavo("run", llama3, *dummy, "-n", 8, "--temperature", 0, "--ignore-eos", input="hi\nhi again\n")
    counts = [int(n) for n in re.findall(r"\[(\d+) prompt tokens", talk.stderr)]
    messages += [{"role": "assistant", "content": chat["choices"][0]["message"]["content"]}, {"role": "user", "content": "hi again"}]
    second = server.post("/tokenize", {"messages": messages}).json()["tokens"]
    assert counts == [len(ids), len(second)] and second.count(bos) == 1


# BL-06: a chat template that cannot be read costs the chat, not the model.
def test_unusable_chat_template(start, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(TINY, folder)
    (folder / "chat_template.jinja").write_text("{{ messages | no_such_filter }}")
    server = start(model=folder)
    assert "no_such_filter" in server.output() and "chat" in server.output()
    assert server.post("/v1/completions", {"prompt": "one", "max_tokens": 2}).status_code == 200
    reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
    assert reply.status_code == 400 and "no_such_filter" in reply.json()["error"]["message"]
    out = octavo("run", folder, "-p", "hi", "-n", 2)
    assert out.returncode == 1 and "no_such_filter" in out.stderr
    fixed = start("--chat-template", "{{ messages[0].content }}", model=folder)
    assert fixed.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}).status_code == 200


LEVELS = ["scalar", "avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_bf16"]


# BL-45: each level serves on its own; float32 arithmetic gives the stored tokens on all.
@pytest.mark.parametrize("level", ["scalar", "avx2"])
def test_every_kernel_level_serves(start, level):
    prompts = json.loads((TINY / "golden.json").read_text())["prompts"]
    for flags in (["--dtype", "float32"], []):
        server = start(*flags, env={"OCTAVO_ISA": level})
        assert f"Kernels: {level} " in server.output()
        for name in ("short", "mid"):
            out = server.post("/v1/completions", {"prompt": prompts[name]["ids"], "max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True})
            assert out.status_code == 200
            if flags:
                assert out.json()["choices"][0]["token_ids"] == prompts[name]["greedy"]["ids"][:8]
    quantised = start("--dtype", "float32", model=GOLDEN / "quantised/qwen3-w8a8", env={"OCTAVO_ISA": level})
    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "temperature": 0}
    assert quantised.post("/v1/chat/completions", chat).status_code == 200
    assert f"Kernel level:  {level}" in octavo("info", env=dict(os.environ, OCTAVO_ISA=level)).stdout


if os.uname().machine == "x86_64":
    # BL-45: on CPUs without AVX-512, and without AVX at all, nothing that the CPU lacks is executed, static
    # initialisers included; qemu's translator has AVX2 and traps the rest.
    @pytest.mark.parametrize("cpu,level", [("Nehalem", "scalar"), ("Haswell", "avx2")])
    def test_older_cpus(cpu, level):
        def emulated(*args):
            out = subprocess.run(["qemu-x86_64", "-cpu", cpu, BINARY, *map(str, args)], capture_output=True, text=True, timeout=300, check=False)
            assert out.returncode == 0, (out.returncode, out.stderr)
            return out

        assert emulated("--version").stdout == octavo("--version").stdout
        assert f"Kernel level:  {level}" in emulated("info").stdout
        for model, dtype in ((TINY, "float32"), (TINY, "bfloat16"), (GOLDEN / "quantised/qwen3-w8a8", "float32")):
            args = ["run", model, "-p", "one two", "--raw", "-n", 6, "--temperature", 0, "--ignore-eos", "--dtype", dtype, "--kv-cache-memory-bytes", "16M"]
            text = emulated(*args).stdout
            assert len(text) > 3
            if dtype == "float32":
                assert text == octavo(*args).stdout


@pytest.mark.parametrize("command", [["info"], ["run", TINY, "-p", "x"], ["serve", TINY]])
def test_unknown_kernel_level_is_refused_with_the_list(command):
    out = octavo(*command, env=dict(os.environ, OCTAVO_ISA="sse9"))
    assert out.returncode == 1 and "OCTAVO_ISA" in out.stderr and "sse9" in out.stderr
    if os.uname().machine == "x86_64":
        assert all(level in out.stderr for level in LEVELS)


def idle_share(server, seconds=2.0):
    time.sleep(0.3)
    before = server.cpu_seconds()
    time.sleep(seconds)
    return (server.cpu_seconds() - before) / seconds


# BL-46: in each of the four states an idle server costs nothing (the clock of /proc ticks in hundredths).
def test_idle_in_every_state(start):
    server = start()
    assert idle_share(server) <= 0.011
    body = {"prompt": "one two", "max_tokens": 20, "ignore_eos": True}
    assert server.post("/v1/completions", body).status_code == 200
    assert idle_share(server) <= 0.011
    with connect(server) as sock:
        sock.sendall(request("POST", "/v1/completions", dict(body, max_tokens=1000, stream=True)))
        assert sock.recv(100)
    server.wait_idle()
    assert idle_share(server) <= 0.011
    with connect(server):
        assert idle_share(server) <= 0.011


# BL-46: a stream that was left takes nothing with it, and workers that were parked come back at once.
def test_first_token_after_idle(smol):
    body = {"prompt": "The capital of France is", "max_tokens": 1, "temperature": 0, "ignore_eos": True}

    def first_token():
        began = time.monotonic()
        reply = smol.post("/v1/completions", body)
        assert reply.status_code == 200
        return time.monotonic() - began, reply.json()["choices"][0]["text"]

    first_token()
    warm = [first_token() for _ in range(9)]
    cold = []
    for _ in range(5):
        with requests.post(smol.url + "/v1/completions", json=dict(body, max_tokens=500, stream=True), stream=True, timeout=60) as stream:
            next(stream.iter_content(10))
        smol.wait_idle()
        time.sleep(1)
        cold.append(first_token())
    assert {text for _, text in warm + cold} == {warm[0][1]}
    # Tests share the machine, so the best of each is compared, and 20 ms are left to the scheduler.
    assert min(cold)[0] <= 1.2 * sorted(warm)[len(warm) // 2][0] + 0.02, (cold, warm)


# A config file's list gives way to the command line's, as with every other flag.
def test_the_last_list_counts(start, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("served-model-name: [one, two]\napi-key: [old]\n")
    server = start("--config", str(file), "--api-key", "new", "--api-key", "newer", name="mine")
    assert requests.get(server.url + "/v1/models", headers={"authorization": "Bearer old"}, timeout=10).status_code == 401
    assert requests.get(server.url + "/v1/models", headers={"authorization": "Bearer new"}, timeout=10).status_code == 401
    listed = requests.get(server.url + "/v1/models", headers={"authorization": "Bearer newer"}, timeout=10).json()
    assert [model["id"] for model in listed["data"]] == ["mine"]


def test_http_durations_cover_the_whole_reply(start):
    server = start()
    body = {"prompt": "x", "max_tokens": 900, "ignore_eos": True, "stream": True}
    began = time.monotonic()
    reply = server.post("/v1/completions", body)
    assert reply.status_code == 200
    took = time.monotonic() - began
    server.post("/v1/completions", {"prompt": 3})
    for path in ("/v1/unknown", "/v1/other"):
        requests.get(server.url + path, timeout=10)
    for _ in range(3):
        requests.get(server.url + "/health", timeout=10)
    labels = {"handler": "/v1/completions", "method": "POST"}
    end = time.time() + 5
    while server.metric("http_request_duration_seconds_count", **labels) < 2 and time.time() < end:
        time.sleep(0.01)
    assert server.metric("http_request_duration_seconds_count", **labels) == 2
    assert 0.5 * took <= server.metric("http_request_duration_seconds_sum", **labels) <= 1.5 * took + 0.1
    assert server.metric("http_requests_total", status="2xx", **labels) == 1 == server.metric("http_requests_total", status="4xx", **labels)
    assert server.metric("http_request_duration_seconds_count", handler="none") == 2
    assert server.metric("http_request_duration_highr_seconds_count") == 4
    assert server.metric("http_response_size_bytes_sum", handler="/v1/completions") > len(reply.content) > 1000
    assert not [key for key in server.metrics() if "/v1/unknown" in key or "/health" in key]
