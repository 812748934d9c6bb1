. $ROOT/tests/pages/scripted_gpu.sh
cp $ROOT/tests/pages/w.json .
cat >two.json <<'END'
{"moetune_workloads": 1, "workloads": [{"kernel": "decode_kernel", "shapes": ["elements=1024", "elements=2048"]}]}
END
small_space "loader == 'cp_async' && stages == 2 && warps == 4 && tile_kib == 16 && vector_bytes == 16 && \
  blocks_per_sm == 1"
