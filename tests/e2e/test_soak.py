from soak import soak


def test_memory_is_flat(start):
    server = start("--kv-cache-memory-bytes", "8M")  # the cache fills page by page: small, so that it is full soon
    warm, end = soak(server, 600)
    assert end < warm * 1.08 + 4e6
