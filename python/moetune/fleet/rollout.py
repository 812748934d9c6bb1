"""A pack onto many hosts in two stages: the first few install it and duel, and the rest only if all of these agree."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moetune.fleet.options import Rollout

# Sends one request to hosts, all at once, and returns the answer of each: {"status": "ok"} or a reason in "why".
Ask = Callable[[Sequence[str], str, dict[str, Any]], dict[str, dict[str, Any]]]


def first_hosts(hosts: Mapping[str, str], count: int) -> list[str]:
    """The first `count` of each hardware; `hosts` maps a host to its hardware."""
    chosen: list[str] = []
    taken: dict[str, int] = {}
    for host in sorted(hosts):
        taken[hosts[host]] = taken.get(hosts[host], 0) + 1
        if taken[hosts[host]] <= count:
            chosen.append(host)
    return chosen


def _failures(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {host: str(answer.get("why", "no reason was given"))[:2000]
            for host, answer in answers.items() if answer.get("status") != "ok"}


def roll_out(hosts: Mapping[str, str], first: int, request: dict[str, Any], duels: Sequence[tuple[str, str]],
             ask: Ask) -> Rollout:
    """Installs everywhere, or nowhere if one of the first does not agree: then they go back to what they had."""
    result = Rollout()
    chosen = first_hosts(hosts, first)
    answers = ask(chosen, "install", {**request, "duels": [list(each) for each in duels]})
    result.failed = _failures(answers)
    agreed = [host for host in chosen if host not in result.failed]
    if result.failed or not chosen:
        # One that had the pack before keeps it: there is nothing to go back to.
        changed = [host for host in agreed if answers[host].get("changed") is True]
        back = ask(changed, "restore", request) if changed else {}
        result.restored = [host for host in changed if host not in _failures(back)]
        result.failed.update(_failures(back))
        return result
    result.agreed = True
    rest = [host for host in sorted(hosts) if host not in chosen]
    result.failed = _failures(ask(rest, "install", {**request, "duels": []})) if rest else {}
    result.installed = agreed + [host for host in rest if host not in result.failed]
    return result
