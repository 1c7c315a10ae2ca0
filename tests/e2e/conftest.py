"""Starts the built binary (OCTAVO_BINARY) on the tiny golden model or on SmolLM2, and offers clients of it."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import openai
import pytest
import requests

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("OCTAVO_BINARY", str(ROOT / "build/octavo"))
SHARED = pathlib.Path(os.environ.get("OCTAVO_SHARED", ROOT.parent / "shared"))
REAL = pathlib.Path(os.environ.get("OCTAVO_REAL_MODELS", pathlib.Path.home() / ".cache/octavo/models"))
TINY = SHARED / "golden/models/qwen3-tied"  # 512 tokens, context 1024: a step takes microseconds
SMOL = REAL / "smollm2-135m-instruct"


class Server:
    """One running `octavo serve`."""

    def __init__(self, model, *flags, env=None, name="tiny", wait=True):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False)
        command = [BINARY, "serve", str(model), *(["--served-model-name", name] if name else []), "--port", "0", "--host", "127.0.0.1",
                   "--kv-cache-memory-bytes", "256M", *flags]
        self.name = name
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=dict(os.environ, **(env or {})))
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            found = re.search(r"Serving \S+ at (http://\S+|unix:\S+) after", self.output())
            if found:
                self.url = found.group(1)
                return
            assert self.process.poll() is None, self.output()
            time.sleep(0.02)
        raise AssertionError("not ready: " + self.output())

    def output(self):
        return pathlib.Path(self.log.name).read_text()

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def client(self, **options):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=120, **options)

    def post(self, path, body, **options):
        return requests.post(self.url + path, json=body, timeout=120, **options)

    def metrics(self):
        out = {}
        for line in requests.get(self.url + "/metrics", timeout=30).text.splitlines():
            if line and not line.startswith("#"):
                key, value = line.rsplit(" ", 1)
                out[key] = float(value)
        return out

    def metric(self, name, **labels):
        """Sum over the series of that name that have these labels."""
        total = 0.0
        for key, value in self.metrics().items():
            if key.split("{")[0] == name and all(f'{k}="{v}"' in key for k, v in labels.items()):
                total += value
        return total

    def wait_idle(self, seconds=10):
        end = time.time() + seconds
        while time.time() < end:
            now = self.metrics()
            gauges = [v for k, v in now.items() if k.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting{",
                                                                 "vllm:kv_cache_usage_perc"))]
            if gauges and not any(gauges):
                return
            time.sleep(0.05)
        raise AssertionError(f"not idle: {gauges}")

    def rss(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", fields).group(1)) * 1024

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, seconds=20):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


def make_server(*args, **kwargs):
    return Server(*args, **kwargs)


@pytest.fixture(scope="session")
def tiny():
    server = Server(TINY)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def smol():
    server = Server(SMOL, name="smol")
    yield server
    server.stop()


@pytest.fixture
def start():
    """Starts servers of a test's own; they are stopped after it."""
    servers = []

    def starter(*flags, model=TINY, **kwargs):
        servers.append(Server(model, *flags, **kwargs))
        return servers[-1]

    yield starter
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
