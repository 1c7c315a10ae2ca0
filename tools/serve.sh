#!/usr/bin/env bash
# serve.sh BINARY PORT: serves SmolLM2-135M-Instruct and prints, once it is ready, how to talk to it.
set -euo pipefail
binary=$1 port=$2
model=$("$(dirname "$0")/get_smollm2.sh")
name=SmolLM2-135M-Instruct
# So small a model feels activations of int8 ("the capital of France" is a near tie that they tip), and is fast without.
"$binary" serve "$model" --gguf-activations float --served-model-name "$name" --port "$port" &
server=$!
trap 'kill -TERM $server 2>/dev/null; wait $server' INT TERM
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
  kill -0 $server 2>/dev/null || { wait $server; exit $?; }
  sleep 0.1
done
cat <<TEXT

$name is served on http://localhost:$port/v1. Try:

  curl -N http://localhost:$port/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"model": "$name", "stream": true, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}'

or, with \`pip install openai\`:

  from openai import OpenAI
  client = OpenAI(base_url="http://localhost:$port/v1", api_key="none")
  messages = [{"role": "user", "content": "Why is the sky blue?"}]
  for chunk in client.chat.completions.create(model="$name", messages=messages, stream=True):
      print(chunk.choices[0].delta.content or "", end="", flush=True)

Ctrl-C stops it.
TEXT
wait $server
