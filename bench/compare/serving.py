"""One client, `octavo bench serve`, against each engine's server. All servers are up at once; those whose turn it is not are
stopped with SIGSTOP, as starting vLLM anew each round would take longer than the measurement."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from catalogue import SERVING_CONCURRENCY
from engines import LLAMA_FLAGS, Failed, stop, tail_of

MAX_LENGTH = 1024  # of a sequence: prompt and output of the longest load
METRICS = {
    "output tokens/s": "output_throughput", "total tokens/s": "total_token_throughput", "median TTFT": "median_ttft_ms",
    "p99 TTFT": "p99_ttft_ms", "median TPOT": "median_tpot_ms", "p99 TPOT": "p99_tpot_ms", "median ITL": "median_itl_ms",
    "p99 ITL": "p99_itl_ms",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def server_command(context, row, path, port):
    if row.engine == "octavo":
        return [context.octavo("octavo"), "serve", path, "--served-model-name", "m", "--port", str(port), "--max-model-len",
                str(MAX_LENGTH), "--kv-cache-memory-bytes", "1G", *row.flags]
    if row.engine == "llama.cpp":
        return [context.llama("llama-server"), "-m", path, "--alias", "m", "--port", str(port), "-t", str(context.threads),
                "-c", str(MAX_LENGTH * SERVING_CONCURRENCY), "-np", str(SERVING_CONCURRENCY), "--offline", *LLAMA_FLAGS, *row.flags]
    if row.engine == "vllm":
        vllm = os.path.join(os.path.dirname(context.python("vllm")), "vllm")
        return [vllm, "serve", path, "--served-model-name", "m", "--port", str(port), "--host", "127.0.0.1",
                "--max-model-len", str(MAX_LENGTH), "--dtype", *row.flags]
    raise Failed("has no OpenAI-compatible server here")


class Server:
    def __init__(self, context, row, model, timeout=1800):
        path = context.file(row, model)
        self.context, self.row, self.model = context, row, model
        self.log = context.log(model, row, "-server")
        self.url = f"http://127.0.0.1:{free_port()}"
        self.tokenizer = str(context.models / f"{model}-hf")
        command = server_command(context, row, path, self.url.rsplit(":", 1)[1])
        started = time.monotonic()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, process_group=0,
                                            env=context.environment(row.engine))
        try:
            while not self._healthy():
                if self.process.poll() is not None:
                    raise Failed(f"server ended with {self.process.returncode}: {tail_of(self.log)}")
                if time.monotonic() - started > timeout:
                    raise Failed(f"server not ready after {timeout:.0f} s: {tail_of(self.log)}")
                time.sleep(0.2)
            self.seconds_to_ready = time.monotonic() - started
        except BaseException:
            self.close()
            raise
        self.pause()

    def _healthy(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=2) as reply:
                return reply.status == 200
        except (OSError, urllib.error.HTTPError):
            return False

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def measure(self, load, seed, timeout, requests=None):
        """The client's JSON. Every round and load has prompts of its own (seed): what an earlier one left
        in a cache is no help."""
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            command = [self.context.octavo("octavo"), "bench", "serve", "--base-url", self.url, "--model", "m", "--tokenizer",
                       self.tokenizer, *load.dataset, "--num-prompts", str(requests or load.requests), "--request-rate", load.rate,
                       "--max-concurrency", str(SERVING_CONCURRENCY), "--temperature", "0", "--ignore-eos", "--seed", str(seed),
                       "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99", "--save-result",
                       "--result-filename", result.name]
            client = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
            if client.returncode:
                raise Failed(f"client: {client.stderr.strip()[-300:]}")
            answer = json.load(open(result.name))
        if answer["failed"]:
            raise Failed(f"{answer['failed']} of {load.requests} requests failed: {client.stderr.strip()[-200:]}")
        return answer

    def close(self):
        stop(self.process)
