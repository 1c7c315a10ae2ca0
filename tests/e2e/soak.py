"""Many small requests in many shapes; resident memory must stay flat and gauges return to zero.

python tests/e2e/soak.py [--requests 10000] [--model PATH --kv-cache 256M]; test_soak.py runs the short form.
"""
import argparse
import concurrent.futures
import random
import socket

import requests
from conftest import TINY, make_server
from raw import connect, request


def one(server, session, rng, max_tokens):
    body = {"prompt": [rng.randint(3, 400) for _ in range(rng.randint(1, 60))], "max_tokens": rng.randint(1, max_tokens), "n": rng.choice([1, 1, 1, 3]),
            "temperature": 1, "stream": rng.random() < 0.5, "seed": rng.randint(0, 1 << 30)}
    kind = rng.random()
    if kind < 0.1:
        body["logprobs"] = 5
    elif kind < 0.2:
        body["stop"] = ["e", "zz"]
    elif kind < 0.3:
        body["prompt"] = "not tokens " * rng.randint(1, 30)
    elif kind < 0.35:
        body["temperature"] = 9  # refused
    elif kind < 0.4:  # gone before the end
        with connect(server) as sock:
            sock.sendall(request("POST", "/v1/completions", dict(body, max_tokens=800)))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return
    reply = session.post(server.url + "/v1/completions", json=body, timeout=120)
    assert reply.status_code == (400 if body["temperature"] > 2 else 200), reply.text
    assert '{"error"' not in reply.text or reply.status_code == 400  # quotes in generated text are escaped


def soak(server, count, clients=16, max_tokens=30):
    """Resident bytes after a warm-up and at the end."""
    def worker(seed, share):
        rng = random.Random(seed)
        with requests.Session() as session:
            for _ in range(share):
                one(server, session, rng, max_tokens)

    def run(total, seed):
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            for future in [pool.submit(worker, seed + i, total // clients) for i in range(clients)]:
                future.result()
        server.wait_idle()
        return server.rss()

    run(max(count // 10, clients * 20), 0)
    warm = run(max(count // 10, clients * 20), 1000)
    return warm, run(count, 2000)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--model", default=TINY)
    parser.add_argument("--kv-cache", default="8M", help="small, so that the prefix cache is full after the warm-up")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=30)
    args = parser.parse_args()
    server = make_server(args.model, "--kv-cache-memory-bytes", args.kv_cache)
    warm, end = soak(server, args.requests, args.clients, args.max_tokens)
    print(f"RSS {warm / 1e6:.1f} MB after warm-up, {end / 1e6:.1f} MB after {args.requests} more requests")
    assert server.stop() == 0
    assert end < warm * 1.05 + 4e6


if __name__ == "__main__":
    main()
