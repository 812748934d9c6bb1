# on_scripted_gpu DIRECTIVES COMMAND...: runs it on the scripted GPU of tests/fake_cuda.
on_scripted_gpu() { MOETUNE_LIBCUDA=$SCRIPTED_LIBCUDA MOETUNE_FAKE_CUDA=memory=4194304,$1 "${@:2}"; }

# small_space EXPRESSION: from now on decode_kernel has only the configurations for which it holds.
small_space() {
  export MOETUNE_DATA_DIR=$PWD/data
  rm -rf data
  mkdir data
  cp -r templates spaces data
  python3 - "$1" <<'END'
import json, pathlib, sys
file = pathlib.Path("data/templates/decode_kernel/kernel.json")
space = json.loads(file.read_text())
space["constraints"].append({"expr": sys.argv[1], "why": "few, for the pages"})
file.write_text(json.dumps(space))
END
}
