"""octavo quantize and --quantization through the binary. The folder is read by a safetensors reader of our own here, and its
numbers compared with the original's by compressed-tensors' rules."""
import json
import re
import struct

import pytest
from conftest import SMOL, TINY, Server
from test_cli import octavo

TEXT = "The keeper of the lighthouse counted the ships, wrote their names in a book, and went to sleep at dawn. " * 60


class Safetensors:
    def __init__(self, path):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        self.tensors = json.loads(data[8:8 + size])
        self.tensors.pop("__metadata__", None)
        self.data = data[8 + size:]

    def raw(self, name):
        begin, end = self.tensors[name]["data_offsets"]
        return self.data[begin:end]

    def floats(self, name):
        raw, dtype = self.raw(name), self.tensors[name]["dtype"]
        if dtype == "F32":
            return list(struct.unpack(f"<{len(raw) // 4}f", raw))
        assert dtype == "BF16", dtype
        return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]

    def int8(self, name):
        assert self.tensors[name]["dtype"] == "I8"
        return list(struct.unpack(f"<{len(self.raw(name))}b", self.raw(name)))

    def nibbles(self, name):
        assert self.tensors[name]["dtype"] == "I32"
        words = struct.unpack(f"<{len(self.raw(name)) // 4}I", self.raw(name))
        return [(word >> 4 * i & 15) - 8 for word in words for i in range(8)]

    def e4m3(self, name):
        assert self.tensors[name]["dtype"] == "F8_E4M3"

        def value(code):
            exponent, mantissa = code >> 3 & 15, code & 7
            magnitude = (8 + mantissa) * 2.0**(exponent - 10) if exponent else mantissa / 512
            return -magnitude if code & 128 else magnitude
        return [value(code) for code in self.raw(name)]


@pytest.mark.parametrize("scheme,flags,group,bound", [
    ("w8a8", [], None, 0.5 / 127), ("w4a8", [], 32, 0.5 / 7.5), ("w4a16", ["--group-size", "64"], 64, 0.5 / 7.5),
    ("w4a16", ["--group-size", "-1"], None, 0.5 / 7.5), ("fp8", [], None, 1 / 16)])
def test_folder_is_compressed_tensors(tmp_path, scheme, flags, group, bound):
    out = tmp_path / "out"
    done = octavo("quantize", TINY, out, "--scheme", scheme, *flags)
    assert done.returncode == 0, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["out"]  # nothing half-written beside it
    config = json.loads((out / "config.json").read_text())
    plain_config = json.loads((TINY / "config.json").read_text())
    quantization = config.pop("quantization_config")
    assert config == plain_config
    assert quantization["quant_method"] == "compressed-tensors" and quantization["ignore"] == ["lm_head"]
    weights = quantization["config_groups"]["group_0"]["weights"]
    assert (weights["strategy"], weights["group_size"]) == (("group", group) if group else ("channel", None))
    for name in ("tokenizer.json", "generation_config.json", "tokenizer_config.json"):
        assert (out / name).read_bytes() == (TINY / name).read_bytes()

    plain, written = Safetensors(TINY / "model.safetensors"), Safetensors(out / "model.safetensors")
    layer = "model.layers.1.mlp.down_proj"
    want, (n, k) = plain.floats(layer + ".weight"), plain.tensors[layer + ".weight"]["shape"]
    scales = written.floats(layer + ".weight_scale")
    assert written.tensors[layer + ".weight_scale"]["shape"] == [n, k // (group or k)]
    if scheme == "w4a16":
        codes = written.nibbles(layer + ".weight_packed")
        assert struct.unpack("<2q", written.raw(layer + ".weight_shape")) == (n, k)
    else:
        codes = (written.e4m3 if scheme == "fp8" else written.int8)(layer + ".weight")
        assert written.tensors[layer + ".weight"]["shape"] == [n, k]
    size = group or k
    for first in range(0, n * k, size):
        top = max(abs(x) for x in want[first:first + size])
        for i in range(first, first + size):
            assert abs(codes[i] * scales[first // size] - want[i]) <= top * (bound + 0.005)
    for name, entry in plain.tensors.items():  # all else is as it was
        if re.search("embed|norm", name):
            assert written.raw(name) == plain.raw(name) and written.tensors[name]["dtype"] == entry["dtype"]


def test_calibrated_folder_serves(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    done = octavo("quantize", TINY, tmp_path / "out", "--scheme", "w8a8", "--calibrate", tmp_path / "text",
                  "--calibration-tokens", "1024", "--scales", "mse")
    assert done.returncode == 0, done.stderr
    server = Server(tmp_path / "out")
    try:
        assert "qkv_proj x" in server.output() and "w8a8" in server.output()
        reply = server.post("/v1/completions", {"model": "tiny", "prompt": "a", "max_tokens": 5, "temperature": 0}).json()
        assert reply["usage"]["completion_tokens"] == 5
    finally:
        server.stop()


@pytest.mark.parametrize("args,word", [
    ([], "IN and OUT"), ([TINY, "OUT"], "--scheme"), ([TINY, "OUT", "--scheme", "w3"], "w8a8, w4a8"),
    ([TINY, "OUT", "--scheme", "w8a8", "--group-size", "32"], "--group-size"),
    ([TINY, "OUT", "--scheme", "w4a8", "--group-size", "48"], "--group-size 48"),
    ([TINY, "OUT", "--scheme", "w8a8", "--scales", "best"], "--scales"),
    ([TINY, "OUT", "--scheme", "w8a8", "--ignore", "re:("], "regular expression"),
    ([TINY, "OUT", "--scheme", "w8a8", "--calibrate", "/no/text"], "/no/text"),
    ([TINY, "OUT", "--scheme", "w8a8", "--calibration-tokens", "3"], "--calibration-tokens"),
    (["/no/model", "OUT", "--scheme", "w8a8"], "/no/model")])
def test_errors_name_the_cause_and_leave_nothing(tmp_path, args, word):
    done = octavo("quantize", *[tmp_path / "out" if a == "OUT" else a for a in args])
    assert done.returncode == 1 and word in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_existing_folders_are_kept(tmp_path):
    (tmp_path / "precious").write_text("x")
    done = octavo("quantize", TINY, tmp_path, "--scheme", "w8a8")
    assert done.returncode == 1 and "exists already" in done.stderr
    (tmp_path / "empty").mkdir()
    assert octavo("quantize", TINY, str(tmp_path / "empty") + "/", "--scheme", "w8a8").returncode == 0
    assert (tmp_path / "empty/config.json").exists() and (tmp_path / "precious").read_text() == "x"
    again = octavo("quantize", tmp_path / "empty", tmp_path / "twice", "--scheme", "w8a8")
    assert again.returncode == 1 and "quantised already" in again.stderr


def perplexity(model, *flags):
    done = octavo("bench", "perplexity", model, *flags)
    assert done.returncode == 0, done.stderr
    return float(re.search(r"Perplexity: ([0-9.]+)", done.stdout).group(1))


def test_quantization_flag(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    flags = ["--text", tmp_path / "text", "--max-tokens", "200", "--kv-cache-memory-bytes", "64M"]
    plain, int8 = perplexity(TINY, *flags), perplexity(TINY, *flags, "--quantization", "int8")
    assert plain != int8 and abs(int8 / plain - 1) < 0.1
    for bad, word in (("int3", "int8, int4"), ("awq", "not quantised")):
        done = octavo("bench", "perplexity", TINY, *flags, "-q", bad)
        assert done.returncode == 1 and word in done.stderr


def test_perplexity_of_a_real_model(tmp_path):
    """The passage's stored perplexity (float32) within 1 %; windows shorter than the text see less and score worse."""
    from conftest import SHARED
    golden = json.loads((SHARED / "golden/real/smollm2-135m-instruct.json").read_text())["perplexity"]["value"]
    flags = ["--text", SHARED / "golden/generate/data/passage.txt", "--max-tokens", "1000", "--max-model-len", "2048"]
    full = perplexity(SMOL, *flags)
    assert abs(full / golden - 1) < 0.01
    assert perplexity(SMOL, *flags, "--window", "100") > full
