"""What runs where, and how a pack is rolled out: without a cluster, a clock or a GPU."""

import unittest
from collections.abc import Sequence
from typing import Any

from moetune.fleet.__main__ import _seconds
from moetune.fleet.policy import Limits, Policy, State, Task
from moetune.fleet.rollout import first_hosts, roll_out


def started(policy: Policy) -> list[tuple[str, str]]:
    return [(each.task.key, each.node) for each in policy.assign()]


def of_two_nodes(*keys: str, **limits: int) -> Policy:
    policy = Policy(Limits(**limits))
    for key in keys:
        policy.add(Task(key, "H200"))
    policy.join("a", "H200")
    policy.join("b", "H200")
    return policy


class SpanTest(unittest.TestCase):
    def test_spans_are_those_of_the_tool(self) -> None:
        for text, seconds in (("90", 90), ("30s", 30), ("1h30m", 5400), ("1.5h", 5400), ("1d2h3m4.5s", 93784.5)):
            self.assertEqual(_seconds(text), seconds)
        for wrong in ("", "0", "h", "30m1h", "2h30", "-1", "inf", "367d", "1h 30m"):
            with self.assertRaises(ValueError):
                _seconds(wrong)


class PolicyTest(unittest.TestCase):
    def test_longest_first_then_most_valuable(self) -> None:
        policy = Policy()
        policy.expect("short", 5)
        policy.expect("long", 50)
        for key, group, value in (("1", "short", 9.0), ("2", "long", 1.0), ("3", "long", 2.0), ("4", "new", 0.1)):
            policy.add(Task(key, "H200", group, value))
        policy.join("a", "H200", slots=3)
        self.assertEqual([key for key, _ in started(policy)], ["4", "3", "2"])
        self.assertEqual(started(policy), [])
        policy.expect("short", 205)
        self.assertEqual(policy.expected()["short"], 105)
        policy.done("3", "a")
        self.assertEqual(started(policy), [("1", "a")])

    def test_hardware_is_never_mixed(self) -> None:
        policy = Policy()
        policy.add(Task("1", "H200"))
        policy.join("a", "H100")
        self.assertEqual(started(policy), [])
        self.assertTrue(policy.stuck())
        policy.join("b", "H200")
        self.assertFalse(policy.stuck())
        self.assertEqual(started(policy), [("1", "b")])

    def test_a_lost_node_costs_what_ran_there(self) -> None:
        policy = of_two_nodes("1", "2", "3")
        self.assertEqual(started(policy), [("1", "a"), ("2", "b")])
        self.assertEqual([task.key for task in policy.lose("a")], ["1"])
        self.assertEqual(policy.lose("a"), [])
        policy.done("2", "b")
        self.assertEqual(started(policy), [("1", "b")])
        policy.done("1", "b")
        self.assertEqual(started(policy), [("3", "b")])
        policy.done("3", "b")
        self.assertTrue(policy.finished())
        self.assertEqual([policy.starts(key) for key in "123"], [2, 1, 1])

    def test_what_ends_its_nodes_is_given_up(self) -> None:
        policy = of_two_nodes("1", losses=2)
        for node in ("a", "b"):
            self.assertEqual(started(policy), [("1", node)])
            policy.lose(node)
        self.assertIs(policy.state("1"), State.GIVEN_UP)
        self.assertIn("lost", policy.why("1"))

    def test_a_failure_goes_to_another_node(self) -> None:
        policy = of_two_nodes("1", "2")
        started(policy)
        policy.failed("1", "a", "no memory")
        self.assertEqual(started(policy), [])  # b is busy, and a has failed
        policy.done("2", "b")
        self.assertEqual(started(policy), [("1", "b")])
        policy.failed("1", "b", "no memory", blame_node=False)
        self.assertIs(policy.state("1"), State.GIVEN_UP)  # no other node is left, and the workload is to blame
        self.assertEqual(policy.why("1"), "no memory")

    def test_a_broken_node_is_set_aside_and_forgiven_for(self) -> None:
        policy = of_two_nodes(*"12345", failures=1, node_failures=3)
        self.assertEqual(started(policy)[1], ("2", "b"))
        policy.failed("1", "a", "no driver")
        self.assertIs(policy.state("1"), State.GIVEN_UP)
        for _ in range(2):
            ((key, node),) = started(policy)
            self.assertEqual(node, "a")
            policy.failed(key, node, "no driver")
        self.assertEqual(policy.set_aside(), {"a": "no driver"})
        self.assertEqual(started(policy), [])
        policy.done("2", "b")
        while not policy.finished():
            ((key, node),) = started(policy)
            self.assertEqual(node, "b")
            policy.done(key, node)
        self.assertEqual(policy.count(State.DONE), 5)
        policy.join("a", "H200")
        policy.add(Task("6", "H200"))
        self.assertEqual(started(policy), [("6", "b")])

    def test_duplicates_change_nothing(self) -> None:
        policy = of_two_nodes("1")
        started(policy)
        policy.lose("a")
        self.assertTrue(policy.done("1", "a"))  # it had sent its result before it went
        self.assertFalse(policy.done("1", "a"))
        self.assertEqual(started(policy), [])
        policy.failed("1", "a", "late")
        self.assertTrue(policy.finished())
        self.assertEqual(policy.duplicates, 1)


class Hosts:
    """Hosts that install, but for those that are to lose; `had` are those that had the pack before."""

    def __init__(self, *losing: str, had: Sequence[str] = ()) -> None:
        self.losing, self.had = losing, had
        self.asked: list[tuple[str, str, bool]] = []

    def ask(self, hosts: Sequence[str], what: str, request: dict[str, Any]) -> dict[str, dict[str, Any]]:
        self.asked += [(host, what, bool(request.get("duels"))) for host in hosts]
        return {host: {"status": "lost", "why": "slower"} if host in self.losing and what == "install"
                else {"status": "ok", "changed": host not in self.had} for host in hosts}


class RolloutTest(unittest.TestCase):
    FLEET = {"h1": "H200", "h2": "H200", "h3": "H200", "o1": "H100", "o2": "H100"}

    def roll(self, hosts: Hosts, first: int) -> Any:
        return roll_out(self.FLEET, first, {"path": "/pack", "sha256": ""}, [("decode_kernel", "x")], hosts.ask)

    def test_the_first_of_each_hardware_duel(self) -> None:
        self.assertEqual(first_hosts(self.FLEET, 2), ["h1", "h2", "o1", "o2"])
        hosts = Hosts()
        result = self.roll(hosts, 1)
        self.assertTrue(result.agreed)
        self.assertEqual(sorted(result.installed), sorted(self.FLEET))
        self.assertEqual(hosts.asked[:2], [("h1", "install", True), ("o1", "install", True)])
        self.assertEqual({each[1:] for each in hosts.asked[2:]}, {("install", False)})

    def test_one_that_loses_stops_the_rest(self) -> None:
        hosts = Hosts("o1")
        result = self.roll(hosts, 1)
        self.assertFalse(result.agreed)
        self.assertEqual((result.installed, result.restored, result.failed), ([], ["h1"], {"o1": "slower"}))
        self.assertEqual({host for host, _, _ in hosts.asked}, {"h1", "o1"})

    def test_who_had_the_pack_before_keeps_it(self) -> None:
        hosts = Hosts("o1", had=["h1"])
        result = self.roll(hosts, 2)
        self.assertFalse(result.agreed)
        self.assertEqual(result.restored, ["h2", "o2"])
        self.assertNotIn(("h1", "restore", False), hosts.asked)

    def test_a_later_host_that_fails_stops_none(self) -> None:
        result = self.roll(Hosts("h3"), 1)
        self.assertTrue(result.agreed)
        self.assertEqual(result.failed, {"h3": "slower"})
        self.assertEqual(len(result.installed), 4)


if __name__ == "__main__":
    unittest.main()
