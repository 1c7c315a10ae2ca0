"""The transport: framing, limits, garbage, disconnects, slow clients."""
import json
import random
import socket
import struct
import threading
import time

import pytest
import requests
from raw import connect, read_reply, request

COMPLETION = {"prompt": "x", "max_tokens": 3, "temperature": 0}


def alive(server):
    assert requests.get(server.url + "/health", timeout=10).status_code == 200
    assert server.post("/v1/completions", COMPLETION).status_code == 200


def test_keep_alive_and_pipelining(tiny):
    with connect(tiny) as sock:
        sock.sendall(request("POST", "/v1/completions", COMPLETION) * 3 + request("GET", "/health") + request("GET", "/nowhere"))
        rest, seen = b"", []
        for _ in range(5):
            status, _, body, rest = read_reply(sock, rest)
            seen.append((status, body))
        assert [s for s, _ in seen] == [200, 200, 200, 200, 404]
        assert len({json.loads(b)["choices"][0]["text"] for _, b in seen[:3]}) == 1


def test_pipelined_behind_a_stream(tiny):
    with connect(tiny) as sock:
        sock.sendall(request("POST", "/v1/completions", dict(COMPLETION, stream=True)) + request("GET", "/version"))
        status, headers, body, rest = read_reply(sock)
        assert status == 200 and headers["content-type"].startswith("text/event-stream") and body.endswith(b"data: [DONE]\n\n")
        assert "version" in json.loads(read_reply(sock, rest)[2])


def test_chunked_body(tiny):
    data = json.dumps(COMPLETION).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(tiny) as sock:
        sock.sendall(head)
        for i in range(0, len(data), 7):
            piece = data[i:i + 7]
            sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            time.sleep(0.001)
        sock.sendall(b"0\r\n\r\n")
        assert read_reply(sock)[0] == 200


def test_expect_continue(tiny):
    data = json.dumps(COMPLETION).encode()
    with connect(tiny) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(data))
        status, _, _, rest = read_reply(sock)
        assert status == 100
        sock.sendall(data)
        assert read_reply(sock, rest)[0] == 200


def test_http10_and_head(tiny):
    with connect(tiny) as sock:
        sock.sendall(request("GET", "/v1/models", version="1.0"))
        status, headers, body, _ = read_reply(sock)
        assert status == 200 and headers["connection"] == "close" and json.loads(body)["data"]
        assert sock.recv(1) == b""
    with connect(tiny) as sock:
        sock.sendall(request("POST", "/v1/completions", dict(COMPLETION, stream=True), version="1.0"))
        data = b""
        while more := sock.recv(65536):
            data += more
        assert data.endswith(b"data: [DONE]\n\n") and b"chunked" not in data
    assert requests.head(tiny.url + "/health", timeout=10).status_code == 405


def test_paths(tiny):
    get = lambda path: requests.get(tiny.url + path, timeout=10)
    assert get("/nowhere").json() == {"detail": "Not Found"}
    assert requests.put(tiny.url + "/v1/models", timeout=10).json() == {"detail": "Method Not Allowed"}
    with connect(tiny) as sock:
        sock.sendall(request("GET", "//v1//models") + request("GET", "http://other/v1/models") + request("GET", "/v1/mod%65ls?x=1"))
        rest = b""
        for _ in range(3):
            status, _, _, rest = read_reply(sock, rest)
            assert status == 200


def test_errors_have_openai_shape(tiny):
    cases = [("not json", 400), ('{"prompt": "x"', 400), ("[]", 400), ('{"prompt": 7}', 400), ('{"max_tokens": 1}', 400), ('{"prompt":"x","model":"gone"}', 404),
             ('{"prompt":"x","max_tokens":1e400}', 400), ('{"prompt":[[]]}', 400), ('{"prompt":[99999]}', 400), ('{"prompt":[-1]}', 400), ('{"prompt":""}', None)]
    for body, expected in cases:
        reply = requests.post(tiny.url + "/v1/completions", data=body, headers={"content-type": "application/json"}, timeout=30)
        if expected:
            assert reply.status_code == expected, (body, reply.text)
            assert set(reply.json()["error"]) == {"message", "type", "param", "code"} and reply.json()["error"]["code"] == expected
        else:
            assert reply.status_code in (200, 400)
    reply = requests.post(tiny.url + "/v1/completions", data={"prompt": "x"}, timeout=30)
    assert reply.status_code == 400 and "application/json" in reply.json()["error"]["message"]
    invalid = requests.post(tiny.url + "/v1/completions", data=b'{"prompt":"\xff\xfe"}', headers={"content-type": "application/json"}, timeout=30)
    assert invalid.status_code == 400
    json.loads(invalid.content.decode("utf-8"))


# BL-30
def test_nested_json(tiny):
    stream = tiny.client().completions.create(model="tiny", prompt="x", max_tokens=800, stream=True, extra_body={"ignore_eos": True})
    for depth in (3000, 20000, 500000):
        for template in ('{"prompt":"x","max_tokens":1,"unknown":%s}', '{"messages":[{"role":"user","content":"x"}],"tools":%s}'):
            body = template % ("[" * depth + "]" * depth)
            path = "/v1/chat/completions" if "messages" in template else "/v1/completions"
            start = time.time()
            reply = requests.post(tiny.url + path, data=body, headers={"content-type": "application/json"}, timeout=30)
            assert reply.status_code == 400 and time.time() - start < 5
    schema = {}
    for _ in range(1000):
        schema = {"properties": {"a": schema}}
    text = json.dumps({"a": 0})[:-2]
    assert sum(1 for _ in stream) >= 1
    alive(tiny)
    del schema, text


def test_garbage(tiny):
    random.seed(1)
    for i in range(60):
        with connect(tiny, 5) as sock:
            data = random.randbytes(random.randint(1, 3000))
            if i % 3 == 0:
                data = b"POST /v1/completions HTTP/1.1\r\n" + data
            if i % 3 == 1:
                data = b"GET / HTTP/9.9\r\n\r\n"
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
            except OSError:
                pass
    alive(tiny)


# BL-32
def test_body_and_header_limits(start):
    server = start("--max-body-size", "1000000", "--h11-max-incomplete-event-size", "20000")
    with connect(server) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10737418240\r\n\r\n" + b"x" * 1000)
        assert read_reply(sock)[0] == 413
    with connect(server) as sock:  # a chunked upload that never ends
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises((OSError, AssertionError)):
            for _ in range(10000):
                sock.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            raise AssertionError("accepted")
    with connect(server) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 30000 + b"\r\n\r\n")
        assert read_reply(sock)[0] == 431
    with connect(server) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(300)) + b"\r\n")
        assert read_reply(sock)[0] == 431
    alive(server)


def long_body(stream, n=1):
    return {"prompt": "x", "max_tokens": 1000, "ignore_eos": True, "stream": stream, "n": n, "temperature": 1}


# BL-29
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("end", ["close", "reset", "shutdown"])
def test_disconnect_frees(smol, stream, end):
    for _ in range(5):
        sock = connect(smol)
        sock.sendall(request("POST", "/v1/completions", long_body(stream, n=4)))
        limit = time.time() + 10
        while smol.metric("vllm:num_requests_running") == 0 and time.time() < limit:
            time.sleep(0.01)
        if end == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if end == "shutdown":
            sock.shutdown(socket.SHUT_WR)
        else:
            sock.close()
        smol.wait_idle(5)
        sock.close()
    assert smol.post("/v1/completions", COMPLETION).status_code == 200


def test_disconnect_behind_pipelined_data(smol):
    sock = connect(smol)
    sock.sendall(request("POST", "/v1/completions", long_body(True)) + request("GET", "/health") * 3)
    time.sleep(0.3)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    smol.wait_idle(5)


def test_slow_reader_stalls_nobody(start):
    server = start()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", server.port))
    sock.sendall(request("POST", "/v1/completions", dict(long_body(True, n=8), logprobs=20)))
    time.sleep(0.5)
    start_time = time.time()
    for _ in range(10):
        assert server.post("/v1/completions", dict(COMPLETION, max_tokens=50)).status_code == 200
    assert time.time() - start_time < 20
    assert server.rss() < 1 << 30
    data = b""
    sock.settimeout(60)
    while not data.endswith(b"0\r\n\r\n"):  # it gets all of its stream in the end
        more = sock.recv(1 << 20)
        assert more
        data += more
    assert data.count(b'"finish_reason":"length"') == 8
    sock.close()
    server.wait_idle()


def test_slow_sender_does_not_block(tiny):
    with connect(tiny) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
        alive(tiny)


def test_unix_socket(start, tmp_path):
    path = str(tmp_path / "s.sock")
    server = start("--uds", path)
    assert server.url == "unix:" + path
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(request("POST", "/v1/completions", COMPLETION))
        assert read_reply(sock)[0] == 200
    assert server.stop() == 0


def test_cors(start):
    server = start("--allowed-origins", '["http://a"]', "--api-key", "k")
    preflight = requests.options(server.url + "/v1/models", headers={"origin": "http://a", "access-control-request-method": "GET"}, timeout=10)
    assert preflight.status_code == 200 and preflight.headers["access-control-allow-origin"] == "http://a"
    other = requests.get(server.url + "/health", headers={"origin": "http://b"}, timeout=10)
    assert "access-control-allow-origin" not in other.headers
    assert requests.get(server.url + "/health", headers={"origin": "http://a"}, timeout=10).headers["access-control-allow-origin"] == "http://a"


def test_many_connections(tiny):
    socks = [connect(tiny) for _ in range(200)]
    alive(tiny)
    for sock in socks:
        sock.close()
    threads = [threading.Thread(target=alive, args=(tiny,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
