"""`moetune prepare --server transformers` lists the families that moetune.transformers.use() opens, for tiny models."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import moetune
from moetune import _tool
from support import needs_scripted_driver
from transformers_models import KINDS, WHY_NOT, make

if not WHY_NOT:
    import torch

    from moetune import _families, _linear, _routing, _small

PACK = Path(os.environ.get("MOETUNE_SOURCE", "")) / "packs/h200.pack"
KNOWN = ("Llama", "Mistral", "Mixtral", "Qwen2", "Qwen2Moe", "Qwen3", "Qwen3Moe", "GptOss")


def wanted(model: Any) -> list[Any]:
    """What use() would open, if all of it were stored."""
    families: list[Any] = []
    fused: list[Any] = []
    for part in (_families.attention_of, _families.experts_of, _routing.families_of, _small.rope_of):
        try:
            found = part(model)
        except moetune.Unsupported:
            if part is _families.attention_of:
                break
            continue
        families += found
        fused = _small.attention_layers(model) if part is _small.rope_of else fused
    return families + _small.norms_of(model, fused) + _linear.families_of(model, fused)


def canonical(kernel: str, facts: str) -> tuple[str, str]:
    """With all facts of the family, as the runtime names it."""
    with moetune.open([PACK]) as runtime:
        try:
            runtime.family(kernel, facts)
        except moetune.NotTuned as error:
            found = re.match(r"nothing is tuned for (\S+) (\S+) on ", str(error))
            assert found is not None, error
            return found[1], found[2]
    raise AssertionError(f"{PACK} holds {kernel} {facts}, which is to be tiny")


@needs_scripted_driver
@unittest.skipIf(WHY_NOT, WHY_NOT)
class PrepareTest(unittest.TestCase):
    def prepared(self, model: Any, name: str) -> Any:
        config = {**model.config.to_dict(), "dtype": str(model.dtype).removeprefix("torch.")}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(config))
            command = ["prepare", folder, "--server", "transformers", "--dry-run", "--json", "--packs", folder, "--cache",
                       str(Path(folder, "none.db"))]
            made = subprocess.run([str(_tool.TOOL), *command], env=_tool.environment(), capture_output=True, text=True,
                                  check=False)
        self.assertEqual(made.returncode, 4, (name, made.stderr))
        return json.loads(made.stdout)

    def test_it_lists_what_use_opens(self) -> None:
        for kind, changed in (*((kind, {}) for kind in KNOWN), ("Mixtral", {"sliding_window": 30}),
                              ("Qwen3Moe", {"dtype": torch.float16})):
            model = make(kind, **changed)
            listed = self.prepared(model, kind)
            with self.subTest(kind=kind, **changed):
                self.assertEqual({(each["kernel"], each["family"]) for each in listed["families"]},
                                 {canonical(each.kernel, each.facts) for each in wanted(model)})

    def test_what_it_does_not_know_it_names(self) -> None:
        self.assertEqual(set(KINDS) - set(KNOWN), {"Gemma2", "DeepseekV3"})
        model = make("DeepseekV3")
        listed = self.prepared(model, "DeepseekV3")
        self.assertEqual({each["kernel"] for each in listed["families"]}, {"route_plan", "moe_experts"})
        self.assertEqual({(each["kernel"], each["family"]) for each in listed["families"]},
                         {canonical(each.kernel, each.facts) for each in _families.experts_of(model)})
        self.assertTrue(any("what lies between the products of this model is not known" in note
                            for note in listed["notes"]))


if __name__ == "__main__":
    unittest.main()
