#!/usr/bin/env python3
"""Suggests legal configurations at random: moetune search KERNEL --strategy external:examples/proposers/random.py"""
import json
import sys


def say(message):
    print(json.dumps(message), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if "ask" in message:
        say({"sample": {"n": message["ask"]["n"]}})  # legal and untried; drawn by the search's seed
    elif "sample" in message:
        say({"configs": message["sample"]} if message["sample"] else {"done": True})
