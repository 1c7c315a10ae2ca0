"""Runs the benchmarks of a build folder and prints their JSON lines; --out keeps them in a file.

With --server it also measures what only the whole binary shows, on MODEL (SmolLM2 by default): seconds to ready, CPU while
idle, and the time to first token of a 1,000-token prompt, cold and with its prefix cached.
"""
import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

PROGRAMS = [
    ["probe_bandwidth"],
    ["probe_flops"],
    ["bench_team"],
    ["bench_model"],
    ["bench_attention"],
    ["bench_engine"],
]
IDLE_SECONDS = 20


def run_program(command, results):
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        if line.startswith("{"):
            print(line, flush=True)
            results.append(json.loads(line))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, binary, model):
        self.url = f"http://127.0.0.1:{free_port()}"
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [binary, "serve", model, "--port", self.url.rsplit(":", 1)[1], "--served-model-name", "m",
             "--kv-cache-memory-bytes", "1G"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        while True:
            try:
                urllib.request.urlopen(self.url + "/health", timeout=1).close()
                break
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"octavo serve {model} ended with {self.process.returncode}")
                time.sleep(0.005)
        self.seconds_to_ready = time.perf_counter() - started

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def first_token_seconds(self, ids):
        body = {"model": "m", "prompt": ids, "max_tokens": 2, "temperature": 0, "stream": True}
        request = urllib.request.Request(
            self.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        started = time.perf_counter()
        with urllib.request.urlopen(request, timeout=600) as reply:
            reply.readline()
            return time.perf_counter() - started

    def stop(self):
        self.process.terminate()
        self.process.wait()


def measure_idle(server):
    before = server.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    return 100 * (server.cpu_seconds() - before) / IDLE_SECONDS


def measure_server(binary, model, repeats):
    ready, cold, cached = [], [], []
    idle = {}
    for repeat in range(repeats):
        server = Server(binary, model)
        ready.append(server.seconds_to_ready)
        if repeat == 0:
            idle["before_first_request"] = measure_idle(server)
        random.seed(repeat)
        server.first_token_seconds([random.randrange(1000, 40000) for _ in range(64)])  # wakes the workers
        prefix = [random.randrange(1000, 40000) for _ in range(1000)]
        suffix = [random.randrange(1000, 40000) for _ in range(8)]
        cold.append(server.first_token_seconds(prefix))
        cached.append(server.first_token_seconds(prefix + suffix))
        if repeat == 0:
            idle["after_requests"] = measure_idle(server)
        server.stop()
    median = statistics.median
    return {
        "bench": "server", "model": pathlib.Path(model).name, "repeats": repeats,
        "seconds_to_ready": round(median(ready), 3),
        "idle_percent_of_a_core": {key: round(value, 2) for key, value in idle.items()},
        "ttft_cold_ms": round(1e3 * median(cold), 1), "ttft_prefix_cached_ms": round(1e3 * median(cached), 1),
        "ttft_ratio": round(median(a / b for a, b in zip(cold, cached)), 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--server", action="store_true", help="measure the whole binary too")
    parser.add_argument("--only-server", action="store_true")
    parser.add_argument("--model", help="folder or *.gguf for --server; default: what `make model` fetched")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    results = []
    if not args.only_server:
        for program, *flags in PROGRAMS:
            run_program([str((args.build / program).resolve()), *flags], results)
    if args.server or args.only_server:
        model = args.model or os.path.expanduser("~/.cache/octavo/SmolLM2-135M-Instruct.gguf")
        result = measure_server(str((args.build / "octavo").resolve()), model, args.repeats)
        print(json.dumps(result), flush=True)
        results.append(result)
    if args.out:
        args.out.write_text("".join(json.dumps(result) + "\n" for result in results))


if __name__ == "__main__":
    main()
