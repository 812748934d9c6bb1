"""Operators of moetune.torch called by several threads on one stream."""

import threading
import unittest
from typing import Any, Callable

from moe_cases import Case, if_tuned
from torch_support import NO_GPU, REASON, VERBOSITY

if not REASON:
    import torch

    import moetune.torch as operators
    from test_torch import Inputs
    from test_torch_prefill import Sequences

THREADS, CALLS = 8, 500


def attention(thread: int) -> Callable[[], Any]:
    inputs = Inputs(lengths=(500 - thread, 1 + thread, 17, 300 + thread))
    return lambda: (operators.decode_attention(*inputs.arguments()),)


def prefill(thread: int) -> Callable[[], Any]:
    sequences = Sequences()
    sequences.q *= 1 + thread / THREADS
    return lambda: (torch.ops.moetune.prefill_attention(*sequences.arguments()),)


def routing(thread: int) -> Callable[[], Any]:
    case = Case(seed=3 + thread)
    return lambda: operators.route(case.logits, case.top_k)


@unittest.skipIf(NO_GPU, NO_GPU)
class ThreadsTest(unittest.TestCase):
    def count_wrong(self, calls: list[Callable[[], Any]]) -> int:
        """Calls whose outputs are not what each makes alone, bit for bit."""
        right = [call() for call in calls]
        wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in calls]
        failures: list[BaseException] = []

        def run(thread: int) -> None:
            try:
                for _ in range(CALLS):
                    for mine, theirs in zip(calls[thread](), right[thread]):
                        wrong[thread] += (mine != theirs).any()
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=run, args=(thread,)) for thread in range(len(calls))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if failures:
            raise failures[0]
        return sum(int(count) for count in wrong)

    @if_tuned
    def test_each_operator_and_pairs(self) -> None:
        for kinds in ((attention,), (prefill,), (routing,), (attention, prefill), (attention, routing)):
            with self.subTest(operators=[kind.__name__ for kind in kinds]):
                calls = [kinds[thread % len(kinds)](thread) for thread in range(THREADS)]
                self.assertEqual(self.count_wrong(calls), 0)


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
