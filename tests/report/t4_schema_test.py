"""The files of `moetune report --t4` against the schemas of T4 as Kernel Tuner and autotuning_methodology publish them.

Run by ctest with MOETUNE_BINARY, MAKE_REPORT_CACHE and MOETUNE_T4, the folder where scripts/test puts both packages and
jsonschema. Exit code 77: skipped, with a reason.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

packages = os.environ["MOETUNE_T4"]
sys.path.insert(0, packages)
try:
    import jsonschema
except ImportError:
    jsonschema = None
if jsonschema is None or not os.path.isdir(packages):
    print("SKIPPED: jsonschema and the T4 schemas are not here; scripts/test brings them by pip")
    sys.exit(77)

SCHEMAS = ("autotuning_methodology/schemas/T4.json", "kernel_tuner/schema/T4/1.0.0/results-schema.json",
           "kernel_tuner/schema/T4/1.0.0/metadata-schema.json")


def main():
    validators = []
    for name in SCHEMAS:
        schema = json.loads((pathlib.Path(packages) / name).read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        validators.append(jsonschema.Draft202012Validator(schema))
    checked = 0
    with tempfile.TemporaryDirectory(prefix="moetune-t4-") as folder:
        for kind in ("usual", "hostile"):
            cache, out = pathlib.Path(folder) / f"{kind}.db", pathlib.Path(folder) / kind
            subprocess.run([os.environ["MAKE_REPORT_CACHE"], kind, cache], check=True)
            subprocess.run([os.environ["MOETUNE_BINARY"], "report", "--cache", cache, "--t4", out], check=True,
                           stdout=subprocess.DEVNULL)
            for file in sorted(out.iterdir()):
                document = json.loads(file.read_text())
                for validator in validators:
                    validator.validate(document)
                assert document["results"] or kind == "hostile", file
                checked += len(document["results"])
        # The check itself: a result without its validity is refused.
        del document["metadata"]
        document["results"] = [{"configuration": {}, "times": {}, "correctness": 1}]
        assert not validators[0].is_valid(document) and not validators[1].is_valid(document)
    print(f"{checked} results are valid by {len(validators)} schemas")
    assert checked > 900


main()
