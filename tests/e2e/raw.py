"""HTTP by hand, for what clients cannot or will not send."""
import json
import socket


def connect(server, timeout=30):
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=timeout)
    return sock


def request(method, path, body=None, headers=(), version="1.1"):
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/{version}", "Host: x"] + [f"{k}: {v}" for k, v in headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data


def read_reply(sock, buffer=b""):
    """Status, headers and body of one reply, and what came after it."""
    while b"\r\n\r\n" not in buffer:
        more = sock.recv(65536)
        if not more:
            raise EOFError(buffer)
        buffer += more
    head, rest = buffer.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    status = int(lines[0].split()[1])
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if ": " in line)}
    if status == 100:
        return status, headers, b"", rest
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            while b"\r\n" not in rest:
                rest += sock.recv(65536)
            size, rest = rest.split(b"\r\n", 1)
            size = int(size, 16)
            while len(rest) < size + 2:
                rest += sock.recv(65536)
            body, rest = body + rest[:size], rest[size + 2:]
            if size == 0:
                return status, headers, body, rest
    length = int(headers.get("content-length", 0))
    while len(rest) < length:
        more = sock.recv(65536)
        if not more:
            raise EOFError(rest)
        rest += more
    return status, headers, rest[:length], rest[length:]
