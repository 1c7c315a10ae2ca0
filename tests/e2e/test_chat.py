"""/v1/chat/completions with the official client."""
import openai
import pytest

MESSAGES = [{"role": "user", "content": "hello there"}]


def chat(server, messages=None, **fields):
    fields.setdefault("temperature", 0)
    fields.setdefault("max_completion_tokens", 12)
    fields.setdefault("extra_body", {"ignore_eos": True})
    return server.client().chat.completions.create(model=server.name, messages=messages or MESSAGES, **fields)


def test_plain(tiny):
    out = chat(tiny)
    choice = out.choices[0]
    assert out.object == "chat.completion" and out.id.startswith("chatcmpl-")
    assert choice.message.role == "assistant" and isinstance(choice.message.content, str) and choice.message.content
    assert choice.finish_reason == "length" and not choice.message.tool_calls
    assert out.usage.completion_tokens == 12


# BL-57, BL-60
def test_stream(tiny):
    whole = chat(tiny).choices[0].message.content
    chunks = list(chat(tiny, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole
    finals = [c for c in chunks if c.choices and c.choices[0].finish_reason]
    assert len(finals) == 1 and finals[0].choices[0].delta.content and finals[0] is chunks[-2]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 12
    assert all(c.id == chunks[0].id and c.object == "chat.completion.chunk" and isinstance(c.created, int) for c in chunks)


def test_n(tiny):
    chunks = list(chat(tiny, stream=True, n=3, temperature=1))
    roles = [c.choices[0].index for c in chunks if c.choices[0].delta.role]
    assert sorted(roles) == [0, 1, 2]
    assert sorted(c.choices[0].index for c in chunks if c.choices[0].finish_reason) == [0, 1, 2]
    assert len(chat(tiny, n=3, temperature=1).choices) == 3


def test_logprobs(tiny):
    for k in (0, 3):
        content = chat(tiny, logprobs=True, top_logprobs=k).choices[0].logprobs.content
        assert len(content) == 12 and all(len(entry.top_logprobs) == k for entry in content)
        assert all(isinstance(entry.bytes, list) for entry in content)
    streamed = [e for c in chat(tiny, logprobs=True, top_logprobs=3, stream=True) if c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert [e.token for e in streamed] == [e.token for e in content]
    with pytest.raises(openai.BadRequestError):
        chat(tiny, logprobs=True, top_logprobs=21)
    with pytest.raises(openai.BadRequestError):
        chat(tiny, top_logprobs=3)


def test_default_length_is_the_context(tiny):
    out = tiny.post("/v1/chat/completions", {"messages": MESSAGES, "temperature": 0, "ignore_eos": True}).json()
    assert out["usage"]["total_tokens"] == 1024


# BL-08
def test_content_parts(tiny):
    plain = chat(tiny, [{"role": "user", "content": "A\nB"}])
    parts = chat(tiny, [{"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}])
    assert parts.usage.prompt_tokens == plain.usage.prompt_tokens
    assert parts.choices[0].message.content == plain.choices[0].message.content
    for content in ([{"type": "mystery"}], [{"type": "image_url", "image_url": {"url": "data:,"}}], 7):
        with pytest.raises(openai.BadRequestError):
            chat(tiny, [{"role": "user", "content": content}])


# BL-05
def test_prompt_is_the_rendered_template(tiny):
    rendered = tiny.post("/tokenize", {"messages": MESSAGES}).json()
    assert chat(tiny).usage.prompt_tokens == rendered["count"]
    text = tiny.post("/detokenize", {"tokens": rendered["tokens"]}).json()["prompt"]
    assert text.count("hello there") == 1
    again = tiny.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()
    assert again["tokens"] == rendered["tokens"]


@pytest.mark.parametrize("fields", [
    {"tools": []}, {"tools": [{"type": "function", "function": {"name": "f"}}]}, {"tool_choice": "required"},
    {"response_format": {"type": "json_object"}}, {"structured_outputs": {"json": {}}}, {"guided_json": {}},
    {"add_generation_prompt": True, "continue_final_message": True}, {"chat_template": "{{ 1 }}"}, {"modalities": ["audio"]},
    {"messages": []}, {"messages": [{"role": "nobody", "content": "x"}]}, {"messages": "x"}, {"n": 0}, {"temperature": "hot"},
    {"use_beam_search": True}, {"stop": [""]}, {"stop": ["a", "b", "c", "d", "e"]}, {"reasoning_effort": "much"}])
def test_refusals(tiny, fields):
    reply = tiny.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 1, **fields})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["message"] and error["code"] == 400 and {"message", "type", "param", "code"} == set(error)


def test_accepted_extras(tiny):
    reply = tiny.post("/v1/chat/completions", {
        "messages": MESSAGES, "max_tokens": 1, "unknown": {"a": 1}, "tool_choice": "none", "response_format": {"type": "text"}, "user": "me",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "modalities": ["text"], "stop": None, "seed": -1})
    assert reply.status_code == 200, reply.text
