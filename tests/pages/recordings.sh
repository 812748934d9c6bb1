# Other tuners' results: a row with a time and a rate, and one with a figure of its own.
cat >RTX_3090.json <<'END'
{"device_name": "NVIDIA GeForce RTX 3090", "kernel_name": "axpy", "problem_size": [4096], "objective": "time",
 "tune_params_keys": ["bx"], "tune_params": {"bx": [16, 32]},
 "cache": {"16": {"bx": 16, "time": 2.5, "GFLOP/s": 400.0}, "32": {"bx": 32, "time": 2.0, "GFLOP/s": 500.0}}}
END
gzip RTX_3090.json
cat >scores.json <<'END'
{"device_name": "NVIDIA GeForce RTX 3090", "kernel_name": "axpy", "problem_size": [4096], "objective": "score",
 "tune_params_keys": ["bx"], "tune_params": {"bx": [16, 32]},
 "cache": {"16": {"bx": 16, "time": 2.5, "score": 0.5}, "32": {"bx": 32, "time": 2.0, "score": 0.7}}}
END
