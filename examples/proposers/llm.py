#!/usr/bin/env python3
"""Asks a language model for configurations, by any endpoint that speaks OpenAI's chat completions:

    export OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_MODEL=NAME OPENAI_API_KEY=...
    moetune search decode_attention --strategy external:examples/proposers/llm.py

The key is read from the environment alone, so that it is in no command line. docs/proposers.md has the protocol.
"""
import sys

if not sys.flags.isolated:
    del sys.path[0]  # random.py, which is beside this file, is not the library's

import json
import os
import re
import urllib.request

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/chat/completions"
MODEL = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
KEY = os.environ.get("OPENAI_API_KEY", "")
MOST_CONFIGS, MOST_SOURCE, MOST_REPLY = 8, 20_000, 1 << 22
LONGEST_S = 300


def say(message):
    print(json.dumps(message), flush=True)


def describe(hello):
    """What does not change from question to question."""
    parts = {key: hello[key] for key in ("kernel", "problem", "parameters", "let", "constraints", "default")}
    source = "\n".join(text for path, text in hello["source"].items() if "/common/" not in path)
    return (f"You tune a CUDA kernel on {hello['device']['name']}. A configuration gives each parameter one of its values "
            f"and must meet every constraint.\n{json.dumps(parts)}\n{source[:MOST_SOURCE]}")


def question(told, rejected, samples, count, smaller_is_better):
    measured = sorted((one for one in told if one["figure"] is not None), key=lambda one: one["figure"],
                      reverse=not smaller_is_better)
    failed = [one for one in told if one["figure"] is None][-5:]
    return (f"Best so far ({'smaller' if smaller_is_better else 'larger'} is better): {json.dumps(measured[:10])}\n"
            f"Failed: {json.dumps(failed)}\nRejected: {json.dumps(rejected[-5:])}\nLegal and untried: {json.dumps(samples)}\n"
            f"Answer with a JSON array of at most {count} new configurations and nothing else.")


def ask_model(system, user):
    body = {"model": MODEL, "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}
    headers = {"Content-Type": "application/json"}
    if KEY:
        headers["Authorization"] = "Bearer " + KEY
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=LONGEST_S) as response:
        return json.loads(response.read(MOST_REPLY))["choices"][0]["message"]["content"]


def configs_in(reply):
    """The objects of the first array in a text: models like to add words around it."""
    found = re.search(r"\[.*\]", reply, re.DOTALL)
    try:
        return [one for one in json.loads(found[0]) if isinstance(one, dict)] if found else []
    except ValueError:
        return []


def main():
    hello, told, rejected, wanted = {}, [], [], 0
    for line in sys.stdin:
        kind, content = next(iter(json.loads(line).items()))
        if kind == "hello":
            hello = content
        elif kind == "tell":
            told.append({"config": content["config"], "outcome": content["outcome"],
                         "figure": content.get("time_us", content.get("figure")), "message": content.get("message", "")})
        elif kind == "reject":
            rejected.append(content)
        elif kind == "ask":
            wanted = min(content["n"], MOST_CONFIGS)
            say({"sample": {"n": 8}})
        elif kind == "sample":
            say({"wait": LONGEST_S})
            user = question(told, rejected, content, wanted, not hello["larger_is_better"])
            say({"configs": configs_in(ask_model(describe(hello), user))[:wanted]})


if __name__ == "__main__":
    main()
