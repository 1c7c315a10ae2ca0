"""/v1/completions with the official client and bare requests."""
import json

import openai
import pytest

PROMPT = "one two three"


def complete(server, **fields):
    fields.setdefault("temperature", 0)
    fields.setdefault("max_tokens", 24)
    fields.setdefault("prompt", PROMPT)
    fields.setdefault("extra_body", {"ignore_eos": True})
    return server.client().completions.create(model=server.name, **fields)


def joined(stream):
    """Text, finish reasons and usage of a stream, per choice."""
    text, reasons, usages = {}, {}, []
    for chunk in stream:
        if chunk.usage:
            usages.append((chunk.usage, len(chunk.choices)))
        for choice in chunk.choices:
            text[choice.index] = text.get(choice.index, "") + choice.text
            if choice.finish_reason:
                reasons.setdefault(choice.index, []).append(choice.finish_reason)
    return text, reasons, usages


def test_plain(tiny):
    out = complete(tiny)
    assert out.object == "text_completion" and out.id.startswith("cmpl-") and out.model == "tiny"
    assert out.choices[0].finish_reason == "length" and out.choices[0].text
    assert out.usage.completion_tokens == 24 and out.usage.total_tokens == out.usage.prompt_tokens + 24


def test_stream_equals_whole(tiny):
    whole = complete(tiny).choices[0].text
    text, reasons, usages = joined(complete(tiny, stream=True))
    assert text == {0: whole} and reasons == {0: ["length"]} and not usages


def test_greedy_repeats_and_seed_repeats(tiny):
    assert complete(tiny).choices[0].text == complete(tiny).choices[0].text
    seeded = [complete(tiny, temperature=1, seed=5).choices[0].text for _ in range(2)]
    assert seeded[0] == seeded[1] != complete(tiny, temperature=1, seed=6).choices[0].text


def test_several_prompts_and_n(tiny):
    out = complete(tiny, prompt=["one", "two", "three"], n=2, temperature=1, seed=1)
    assert [c.index for c in out.choices] == list(range(6))
    assert out.usage.completion_tokens == 6 * 24
    again = complete(tiny, prompt="two", n=2, temperature=1, seed=1)
    assert [c.text for c in out.choices[2:4]] == [c.text for c in again.choices]
    text, reasons, _ = joined(complete(tiny, prompt=["one", "two", "three"], n=2, temperature=1, seed=1, stream=True))
    assert text == {c.index: c.text for c in out.choices} and all(r == ["length"] for r in reasons.values())


def test_token_ids(tiny):
    ids = tiny.post("/tokenize", {"prompt": PROMPT}).json()["tokens"]
    assert complete(tiny, prompt=ids).choices[0].text == complete(tiny).choices[0].text
    assert complete(tiny, prompt=[ids, ids]).choices[1].text == complete(tiny).choices[0].text
    assert tiny.post("/detokenize", {"tokens": ids}).json()["prompt"] == PROMPT


# BL-10
def test_stop_strings(tiny):
    whole = complete(tiny, max_tokens=60).choices[0].text
    for start, length in [(3, 1), (10, 4), (20, 7)]:
        stop = whole[start:start + length]
        cut = whole[:whole.index(stop)]
        out = complete(tiny, max_tokens=60, stop=stop)
        assert out.choices[0].text == cut and out.choices[0].finish_reason == "stop"
        assert out.choices[0].model_extra["stop_reason"] == stop
        text, reasons, _ = joined(complete(tiny, max_tokens=60, stop=[stop], stream=True))
        assert text == {0: cut} and reasons == {0: ["stop"]}
        kept = complete(tiny, max_tokens=60, stop=stop, extra_body={"ignore_eos": True, "include_stop_str_in_output": True})
        assert kept.choices[0].text == cut + stop
    assert complete(tiny, max_tokens=60, stop="never to be seen").choices[0].text == whole


# BL-11
def test_min_tokens(tiny):
    whole = complete(tiny, max_tokens=60).choices[0].text
    out = complete(tiny, max_tokens=60, stop=whole[1], extra_body={"min_tokens": 40, "ignore_eos": True})
    assert out.usage.completion_tokens >= 40
    with pytest.raises(openai.BadRequestError):
        complete(tiny, max_tokens=10, extra_body={"min_tokens": 11})


# BL-13
def test_eos_and_ignore_eos(tiny):
    eos = 507
    bias = {str(eos): 100}
    out = complete(tiny, logit_bias=bias, extra_body={})
    assert out.choices[0].finish_reason == "stop" and out.choices[0].text == "" and out.usage.completion_tokens == 1
    assert complete(tiny, logit_bias=bias, max_tokens=50).usage.completion_tokens == 50
    out = complete(tiny, logit_bias=bias, extra_body={"ignore_eos": True, "stop_token_ids": [eos]})
    assert out.usage.completion_tokens == 1 and out.choices[0].model_extra["stop_reason"] == eos


def test_logprobs(tiny):
    for k in (0, 1, 5):
        out = complete(tiny, logprobs=k, max_tokens=6).choices[0]
        lp = out.logprobs
        assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.text_offset) == len(lp.top_logprobs) == 6
        assert all(1 <= len(top) <= k + 1 for top in lp.top_logprobs)
        assert all(v <= 0 for v in lp.token_logprobs)
        assert "".join(lp.tokens) == out.text or "\ufffd" in "".join(lp.tokens)
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError):
            complete(tiny, logprobs=21, stream=stream)


def test_streamed_logprobs_equal_whole(tiny):
    whole = complete(tiny, logprobs=2).choices[0].logprobs
    tokens, values, offsets = [], [], []
    for chunk in complete(tiny, logprobs=2, stream=True):
        tokens += chunk.choices[0].logprobs.tokens
        values += chunk.choices[0].logprobs.token_logprobs
        offsets += chunk.choices[0].logprobs.text_offset
    assert (tokens, values, offsets) == (whole.tokens, whole.token_logprobs, whole.text_offset)


# BL-15, BL-18
def test_echo_scores_the_prompt(tiny):
    prompts = ["Paris is in France", "Paris is in Peru"]
    out = complete(tiny, prompt=prompts, echo=True, logprobs=1, max_tokens=0)
    assert [c.text for c in out.choices] == prompts and out.usage.completion_tokens == 0
    for choice, prompt in zip(out.choices, prompts):
        ids = tiny.post("/tokenize", {"prompt": prompt}).json()["tokens"]
        assert len(choice.logprobs.tokens) == len(ids)
        assert choice.logprobs.token_logprobs[0] is None and choice.logprobs.top_logprobs[0] is None
        assert all(v <= 0 for v in choice.logprobs.token_logprobs[1:])
    filtered = complete(tiny, prompt=prompts, echo=True, logprobs=1, max_tokens=1, temperature=1, seed=1, extra_body={"top_k": 1})
    for a, b in zip(out.choices, filtered.choices):
        assert a.logprobs.token_logprobs == b.logprobs.token_logprobs[:-1]
    with pytest.raises(openai.BadRequestError):
        complete(tiny, max_tokens=0)


def test_extreme_bias_is_strict_json(tiny):
    body = {"prompt": "x", "max_tokens": 4, "logprobs": 5, "temperature": 1, "logit_bias": {str(i): -100 for i in range(100)}, "top_k": 1}
    text = tiny.post("/v1/completions", body).text
    json.loads(text, parse_constant=lambda c: pytest.fail(c))


# BL-02
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
def test_broken_utf8(tiny, path, stream):
    spelled = [tiny.post("/detokenize", {"tokens": [i]}).json()["prompt"] for i in range(505)]
    lone = [i for i, text in enumerate(spelled) if text == "\ufffd"][:3]
    quote = [i for i, text in enumerate(spelled) if text in ('"', "\\")]
    assert lone and quote
    for ids in ([lone[0]], [lone[1], quote[0]], [lone[2], quote[-1]]):
        body = {"max_tokens": 20, "temperature": 1, "logit_bias": {str(i): 100 for i in ids}, "stream": stream}
        if "chat" in path:
            body.update(messages=[{"role": "user", "content": "x"}], logprobs=True, top_logprobs=3)
        else:
            body.update(prompt="x", logprobs=3)
        reply = tiny.post(path, body)
        assert reply.status_code == 200
        lines = reply.content.decode("utf-8").splitlines() if stream else []
        for line in lines:
            if line.startswith("data: {"):
                json.loads(line[6:])
        if not stream:
            assert "\ufffd" in json.dumps(reply.json(), ensure_ascii=False)
    assert complete(tiny).choices[0].text


def test_prompt_logprobs(tiny):
    body = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 2}
    entries = tiny.post("/v1/completions", body).json()["choices"][0]["prompt_logprobs"]
    assert entries[0] is None and all(2 <= len(e) <= 3 for e in entries[1:])
    assert all({"logprob", "rank", "decoded_token"} == set(v) for e in entries[1:] for v in e.values())
    assert tiny.post("/v1/completions", dict(body, stream=True)).status_code == 400


# BL-57
@pytest.mark.parametrize("options,expected", [(None, 0), ({}, 0), ({"include_usage": False}, 0), ({"include_usage": True}, 1),
                                              ({"include_usage": False, "continuous_usage_stats": True}, 0)])
@pytest.mark.parametrize("n", [1, 2])
def test_stream_usage(tiny, options, expected, n):
    stream = complete(tiny, stream=True, stream_options=options, n=n, temperature=1, max_tokens=3)
    _, reasons, usages = joined(stream)
    assert len(usages) == expected and all(len(r) == 1 for r in reasons.values())
    for usage, choices in usages:
        assert choices == 0 and usage.completion_tokens == 3 * n


def test_continuous_usage_grows(tiny):
    stream = complete(tiny, stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    counts = [chunk.usage.completion_tokens for chunk in stream if chunk.choices]
    assert counts == sorted(set(counts)) and counts[-1] == 24


def test_stream_options_without_stream(tiny):
    for options in ({"include_usage": None}, {}, {"include_usage": True}):
        assert tiny.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "stream_options": options}).status_code == 400


def test_stream_interval(tiny):
    chunks = [c for c in complete(tiny, stream=True, extra_body={"ignore_eos": True, "stream_interval": 10})]
    assert 1 <= len(chunks) <= 5  # what was ready together comes together


def test_return_token_ids(tiny):
    out = complete(tiny, extra_body={"return_token_ids": True, "ignore_eos": True}).choices[0].model_extra
    assert len(out["token_ids"]) == 24 and out["prompt_token_ids"] == tiny.post("/tokenize", {"prompt": PROMPT}).json()["tokens"]


# BL-32
def test_context_limits(tiny):
    def status(prompt_tokens, max_tokens, **more):
        reply = tiny.post("/v1/completions", {"prompt": [5] * prompt_tokens, "max_tokens": max_tokens, "ignore_eos": True, **more})
        if reply.status_code == 400:
            assert "1024" in reply.json()["error"]["message"] or max_tokens < 1 or max_tokens == 2**63
        return reply.status_code

    assert status(1023, 1) == 200 and status(1023, 100) == 200 and status(1000, 24) == 200 and status(1000, 25) == 200
    assert status(1024, 1) == 400 and status(1025, 1) == 400 and status(5, 1025) == 400
    assert status(5, 0) == 400 and status(5, -1) == 400 and status(5, 2**63) == 400
    big = tiny.post("/v1/completions", {"prompt": "\n" * 10_000_000, "max_tokens": 1})
    assert big.status_code == 400 and "1024" in big.json()["error"]["message"]
    assert tiny.post("/v1/completions", {"prompt": [5] * 50, "max_tokens": 1, "truncate_prompt_tokens": 10}).json()["usage"]["prompt_tokens"] == 10
    over = tiny.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "truncate_prompt_tokens": 1025})
    assert over.status_code == 400 and "truncate_prompt_tokens" in over.json()["error"]["message"]
