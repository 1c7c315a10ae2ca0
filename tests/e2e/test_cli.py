"""The command line: help, wrong flags, run, info, bench."""
import json
import os
import pty
import subprocess
import time

import pytest
from conftest import BINARY, SMOL, TINY


def octavo(*args, **options):
    return subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True, timeout=120, check=False, **options)


def test_version_and_help():
    assert octavo("--version").stdout.strip() == "0.1.0"
    assert all(word in octavo("--help").stdout for word in ("serve", "run", "bench", "info"))
    text = octavo("serve", "--help").stdout
    assert "KV cache:" in text and "Scheduler:" in text and "--max-model-len" in text


@pytest.mark.parametrize("args,hint", [
    (["serve", TINY, "--max-model-lan", "5"], "--max-model-len"), (["serve", TINY, "--prot", "5"], "--port"), (["srve"], "serve"),
    (["bench", "serve", "--num-promts", "3"], "--num-prompts"), (["run", TINY, "--temprature", "1"], "--temperature")])
def test_unknown_flag_suggests(args, hint):
    out = octavo(*args)
    assert out.returncode == 2 and f"did you mean {hint}?" in out.stderr


@pytest.mark.parametrize("args,word", [
    (["serve", "/nowhere/at/all"], "/nowhere"), (["serve", TINY, "--dtype", "int3"], "--dtype"), (["serve", TINY, "--max-model-len", "9999999"], "--max-model-len"),
    (["serve", TINY, "--max-model-len", "many"], "--max-model-len"), (["serve", TINY, "--kv-cache-dtype", "fp3"], "--kv-cache-dtype"), (["serve", TINY, "-tp", "2"], "tensor-parallel"),
    (["serve", TINY, "--cpu-threads-bind", "x"], "x"), (["serve"], "MODEL"), (["run", TINY, "--logprobs-mode", "x"], "--logprobs-mode"),
    (["serve", TINY, "--chat-template", "/no/file"], "--chat-template")])
def test_bad_values_name_the_flag(args, word):
    out = octavo(*args)
    assert out.returncode in (1, 2) and word in out.stderr and len(out.stderr) < 4000


def test_bad_environment():
    out = octavo("serve", TINY, env=dict(os.environ, VLLM_CPU_KVCACHE_SPACE="lots"))
    assert out.returncode == 1 and "VLLM_CPU_KVCACHE_SPACE" in out.stderr


def test_underscores_suffixes_and_ignored_flags(start):
    server = start("--max_model_len", "1k", "--enforce-eager", "--trust_remote_code", "-tp", "1", "--max-num-batched-tokens", "1K", "--block-size", "16",
                   env={"VLLM_CPU_KVCACHE_SPACE": "0.0625"})
    assert server.client().models.list().data[0].model_extra["max_model_len"] == 1000
    assert "--enforce-eager has no effect" in server.output() and "max_num_batched_tokens 1024" in server.output()


def test_config_file(start, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("max_model_len: 256\nserved-model-name: [one, two]\nenable-prefix-caching: false\noverride-generation-config:\n  temperature: 0.5\n")
    server = start("--config", str(file), "--max-model-len", "128")
    assert server.client().models.list().data[0].model_extra["max_model_len"] == 128


def test_run_prints_and_counts():
    out = octavo("run", SMOL, "-p", "What is the capital of France?", "--max-tokens", "24", "--temperature", "0")
    assert out.returncode == 0 and "Paris" in out.stdout and "tokens/s" in out.stderr
    raw = octavo("run", TINY, "-p", "one two", "--raw", "--max-tokens", "5", "--temperature", "0", "--quiet")
    assert raw.returncode == 0 and "tokens/s" not in raw.stderr


def test_run_chats_over_a_pipe():
    out = octavo("run", TINY, "--max-tokens", "5", input="hello\n/reset\nagain\n/exit\n")
    assert out.returncode == 0 and out.stderr.count("tokens/s") == 2


def test_run_chats_on_a_terminal():
    parent, child = pty.openpty()
    process = subprocess.Popen([BINARY, "run", str(TINY), "--max-tokens", "5"], stdin=child, stdout=child, stderr=child, close_fds=True,
                               env=dict(os.environ, TERM="xterm"))
    os.close(child)
    os.set_blocking(parent, False)
    seen, sent, end = "", False, time.time() + 60
    while time.time() < end and process.poll() is None:
        try:
            seen += os.read(parent, 65536).decode(errors="replace")
        except (BlockingIOError, OSError):
            time.sleep(0.02)
        if "> " in seen and not sent:
            os.write(parent, b"hello\n")
            sent = True
        if sent and "tokens/s" in seen:
            os.write(parent, b"/exit\n")
            break
    assert process.wait(20) == 0 and "tokens/s" in seen
    os.close(parent)


def test_info():
    out = octavo("info", SMOL)
    assert out.returncode == 0
    for word in ("CPU features:", "Kernel level:", "linear BF16", "attention BF16", "LlamaForCausalLM", "Memory plan:"):
        assert word in out.stdout
    capped = octavo("info", env=dict(os.environ, OCTAVO_ISA="scalar"))
    assert "Kernel level:  scalar" in capped.stdout


def test_bench_latency(tmp_path):
    file = tmp_path / "l.json"
    out = octavo("bench", "latency", TINY, "--input-len", 8, "--output-len", 8, "--batch-size", 2, "--num-iters-warmup", 1, "--num-iters", 3, "--output-json", file)
    assert out.returncode == 0 and "Avg latency:" in out.stdout
    result = json.loads(file.read_text())
    assert len(result["latencies"]) == 3 and set(result["percentiles"]) == {"10", "25", "50", "75", "90", "99"} and result["avg_latency"] > 0


def test_bench_throughput(tmp_path):
    file = tmp_path / "t.json"
    out = octavo("bench", "throughput", TINY, "--num-prompts", 20, "--input-len", 20, "--output-len", 5, "--output-json", file)
    assert out.returncode == 0 and "requests/s" in out.stdout
    result = json.loads(file.read_text())
    assert result["num_requests"] == 20 and result["total_num_tokens"] == 20 * 25
    data = tmp_path / "sharegpt.json"
    data.write_text(json.dumps([{"conversations": [{"from": "human", "value": "hello " * 10}, {"from": "gpt", "value": "there " * 8}]}] * 5))
    assert octavo("bench", "throughput", TINY, "--dataset-path", data, "--num-prompts", 5).returncode == 0


def test_bench_kernels():
    out = octavo("bench", "kernels", "--n", 256, "--k", 256, "--rows", 1, 8, "--seconds", 0.01)
    assert out.returncode == 0 and "bf16" in out.stdout


@pytest.mark.parametrize("backend", ["openai", "openai-chat"])
def test_bench_serve(tiny, tmp_path, backend):
    out = octavo("bench", "serve", "--backend", backend, "--base-url", tiny.url, "--num-prompts", 12, "--random-input-len", 20, "--random-output-len", 8, "--ignore-eos",
                 "--request-rate", 200, "--max-concurrency", 4, "--save-result", "--save-detailed", "--result-dir", tmp_path, "--result-filename", "r.json",
                 "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99", "--goodput", "ttft:100000")
    assert out.returncode == 0, out.stderr
    assert "Serving Benchmark Result" in out.stdout and "Mean TTFT (ms):" in out.stdout and "P99 ITL (ms):" in out.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["completed"] == 12 and result["failed"] == 0 and result["total_output_tokens"] == 96
    for key in ("duration", "request_throughput", "output_throughput", "total_token_throughput", "request_goodput", "max_output_tokens_per_s",
                "max_concurrent_requests", "mean_ttft_ms", "median_tpot_ms", "std_itl_ms", "p99_e2el_ms", "p50_ttft_ms", "ttfts", "itls", "errors"):
        assert key in result, key
    assert all(len(gaps) <= 8 for gaps in result["itls"])
