"""The server as a process: keys, signals, metrics, load."""
import concurrent.futures
import json
import random
import threading
import time

import openai
import pytest
import requests
from conftest import BINARY, TINY, make_server
from raw import connect, read_reply, request

ROUTES = [("GET", "/version"), ("GET", "/load"), ("GET", "/metrics"), ("GET", "/v1/models"), ("POST", "/tokenize"), ("POST", "/detokenize"),
          ("POST", "/v1/completions"), ("POST", "/v1/chat/completions"), ("POST", "/reset_prefix_cache"), ("GET", "/nowhere"), ("GET", "/")]


# BL-53
def test_api_key_guards_everything(start):
    server = start("--api-key", "secret", "other", env={"VLLM_SERVER_DEV_MODE": "1"})
    wrong = [{}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer"}, {"authorization": "Bearer "}, {"authorization": "secret"},
             {"authorization": "Basic secret"}, {"authorization": "Bearer secrets"}, {"authorization": "Bearer secre"}]
    for method, path in ROUTES:
        for verb in {method, "GET", "POST", "HEAD", "OPTIONS", "DELETE"}:
            for headers in wrong:
                reply = requests.request(verb, server.url + path + "?api_key=secret", headers=headers, timeout=10)
                assert reply.status_code == 401, (verb, path, headers)
                if verb != "HEAD":
                    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    for target in ("//v1/models", "/v1/../tokenize", "/V1/models", "/v1/models/", "http://x/v1/models", "/%76ersion", "/health/../v1/models"):
        with connect(server) as sock:
            sock.sendall(request("GET", target))
            assert read_reply(sock)[0] == 401, target
    for key in ("secret", "other"):
        for scheme in ("Bearer", "bearer"):
            assert requests.get(server.url + "/v1/models", headers={"authorization": f"{scheme} {key}"}, timeout=10).status_code == 200
    assert requests.get(server.url + "/health", timeout=10).status_code == 200
    assert "secret" not in server.output()
    environment = start(env={"VLLM_API_KEY": "fromenv"})
    assert requests.get(environment.url + "/v1/models", timeout=10).status_code == 401
    assert openai.OpenAI(base_url=environment.url + "/v1", api_key="fromenv").models.list().data[0].id == "tiny"


def long_stream(server, results, index, stream=True, tokens=900):
    body = {"prompt": "x", "max_tokens": tokens, "ignore_eos": True, "stream": stream, "temperature": 0}
    try:
        reply = requests.post(server.url + "/v1/completions", json=body, timeout=60)
        results[index] = (reply.status_code, reply.text)
    except requests.RequestException as error:
        results[index] = (0, str(error))


def start_load(server, tokens):
    results = {}
    threads = [threading.Thread(target=long_stream, args=(server, results, i, i < 10, tokens)) for i in range(12)]
    for thread in threads:
        thread.start()
    limit = time.time() + 20
    while server.metric("vllm:num_requests_running") < 12 and time.time() < limit:
        time.sleep(0.01)
    return results, threads


# BL-55
def test_sigterm_ends_streams_with_an_error_event(start):
    from conftest import SMOL
    server = start(model=SMOL)
    results, threads = start_load(server, 4000)
    began = time.time()
    assert server.stop() == 0 and time.time() - began < 5
    for thread in threads:
        thread.join()
    for index, (status, text) in results.items():
        if index < 10:
            assert status == 200 and text.endswith("data: [DONE]\n\n") and json.loads(text.split("\n\n")[-3][6:])["error"]["code"] == 503
        else:
            assert status == 503 and json.loads(text)["error"]["code"] == 503


def test_sigterm_drains(start):
    from conftest import SMOL
    server = start("--shutdown-timeout", "60", model=SMOL)
    results, threads = start_load(server, 100)
    server.process.terminate()
    time.sleep(0.1)
    refused = {requests.get(server.url + "/health", timeout=10).status_code, server.post("/v1/completions", {"prompt": "x"}).status_code}
    assert refused == {503}
    assert server.process.wait(60) == 0
    for thread in threads:
        thread.join()
    assert all(status == 200 and "error" not in text for status, text in results.values())


def test_second_sigterm_is_quick(start):
    from conftest import SMOL
    server = start("--shutdown-timeout", "60", model=SMOL)
    _, threads = start_load(server, 8000)
    silent = connect(server)  # and one client that does not read
    silent.sendall(request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 8000, "ignore_eos": True, "stream": True}))
    server.process.terminate()
    time.sleep(0.3)
    assert server.process.poll() is None
    began = time.time()
    server.process.terminate()
    assert server.process.wait(10) == 0 and time.time() - began < 3
    for thread in threads:
        thread.join()
    again = start("--port", str(server.port))  # the port is free
    assert again.port == server.port


def test_sigterm_while_loading():
    server = make_server(TINY, wait=False)
    time.sleep(0.05)
    server.process.terminate()
    assert server.process.wait(10) in (0, -15)


def series(server, name):
    return server.metric(name + "_count"), server.metric(name + "_sum")


def test_metrics_count_exactly(start):
    server = start("--no-enable-prefix-caching")
    n, m, prompt = 10, 10, "one two three four"
    p = server.post("/tokenize", {"prompt": prompt}).json()["count"]
    for _ in range(n):
        assert server.post("/v1/completions", {"prompt": prompt, "max_tokens": m, "ignore_eos": True}).status_code == 200
    server.wait_idle()
    assert series(server, "vllm:inter_token_latency_seconds")[0] == n * (m - 1)
    assert series(server, "vllm:iteration_tokens_total") == (n * m, n * (p + m))
    assert server.metric("vllm:request_success_total") == n == server.metric("vllm:request_success_total", finished_reason="length")
    assert server.metric("vllm:prompt_tokens_total") == n * p and server.metric("vllm:generation_tokens_total") == n * m
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds",
                 "request_decode_time_seconds", "request_inference_time_seconds", "request_params_n"):
        assert series(server, "vllm:" + name)[0] == n, name
    assert series(server, "vllm:request_prompt_tokens") == (n, n * p) and series(server, "vllm:request_generation_tokens") == (n, n * m)
    text = requests.get(server.url + "/metrics", timeout=10).text
    assert 'kv_cache_size_tokens="' in text and 'kv_cache_max_concurrency="' in text and 'model_name="tiny"' in text and 'engine="0"' in text


def test_aborts_are_counted(smol):
    before = smol.metric("vllm:request_success_total", finished_reason="abort")
    with connect(smol) as sock:
        sock.sendall(request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 4000, "ignore_eos": True}))
        limit = time.time() + 20
        while not smol.metric("vllm:kv_cache_usage_perc") > 0:
            assert time.time() < limit
    smol.wait_idle()
    assert smol.metric("vllm:request_success_total", finished_reason="abort") == before + 1


# Issue 3, 8.3
def test_64_clients_equal_their_solo_runs(smol):
    random.seed(3)
    words = "time year people way day man thing woman life child world school state family student group country problem hand part".split()
    jobs = [(" ".join(random.choices(words, k=random.randint(1, 60))), random.randint(1, 24)) for _ in range(64)]

    def run(job):
        stream = smol.client().completions.create(model="smol", prompt=job[0], max_tokens=job[1], temperature=0, stream=True, extra_body={"ignore_eos": True})
        return "".join(chunk.choices[0].text for chunk in stream)

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        together = list(pool.map(run, jobs))
    assert [run(job) for job in jobs] == together
    smol.wait_idle()


# BL-46, issue 3, 8.6
def test_idle_costs_nothing(tiny):
    tiny.wait_idle()
    with connect(tiny):
        time.sleep(0.5)
        before = tiny.cpu_seconds()
        time.sleep(5)
        assert tiny.cpu_seconds() - before <= 0.05


def test_starts_in_a_second(start):
    """Start to ready with the file in the page cache; the bound is loose because tests share the machine."""
    from conftest import SMOL
    start(model=SMOL).stop()
    began = time.time()
    start(model=SMOL)
    assert time.time() - began < 5


def test_models_and_version(tiny):
    models = tiny.client().models.list().data
    assert models[0].id == "tiny" and models[0].model_extra["max_model_len"] == 1024
    assert requests.get(tiny.url + "/version", timeout=10).json()["version"]
    assert requests.get(tiny.url + "/ping", timeout=10).status_code == 200 and requests.post(tiny.url + "/ping", timeout=10).status_code == 200


def test_names_ids_and_details(start):
    server = start("--served-model-name", "a", "b", "--enable-request-id-headers", "--enable-prompt-tokens-details", "--enable-force-include-usage", name=None)
    assert [m.id for m in server.client().models.list().data] == ["a", "b"]
    reply = server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "model": "b"}, headers={"x-request-id": "mine"})
    assert reply.json()["model"] == "a" and reply.json()["id"] == "cmpl-mine" and reply.headers["x-request-id"] == "mine"
    assert "cached_tokens" in reply.json()["usage"]["prompt_tokens_details"]
    stream = server.post("/v1/completions", {"prompt": "x", "max_tokens": 2, "stream": True}).text
    assert '"usage":{' in stream
    assert server.post("/v1/completions", {"prompt": "x", "model": "tiny"}).status_code == 404


def test_queue_limit(start):
    server = start("--max-num-seqs", "1", "--max-num-queued-reqs", "1")
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda _: server.post("/v1/completions", {"prompt": "x", "max_tokens": 900, "ignore_eos": True}), range(12)))
    statuses = {r.status_code for r in replies}
    assert statuses == {200, 503}
    assert all(r.json()["error"]["type"] == "ServiceUnavailableError" for r in replies if r.status_code == 503)


def test_default_sampling_comes_from_the_model(start):
    greedy = start("--override-generation-config", '{"temperature": 0.0}')
    texts = {greedy.post("/v1/completions", {"prompt": "x", "max_tokens": 30}).json()["choices"][0]["text"] for _ in range(3)}
    assert len(texts) == 1


def test_reset_prefix_cache_only_in_dev_mode(start, tiny):
    assert tiny.post("/reset_prefix_cache", {}).status_code == 404
    server = start(env={"VLLM_SERVER_DEV_MODE": "1"})
    assert server.post("/reset_prefix_cache", {}).json() == {"success": True}


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_scheduling_policies_serve(start, policy):
    server = start("--scheduling-policy", policy, "--max-num-batched-tokens", "64", "--kv-cache-dtype", "float32", "--dtype", "float32")
    assert server.post("/v1/completions", {"prompt": [5] * 200, "max_tokens": 5, "priority": 3}).status_code == 200


def test_binary_path():
    assert BINARY
