# A cache in which workload 1 has a winner that replaced another, and files to merge.
. $ROOT/tests/pages/scripted_gpu.sh
one="loader == 'cp_async' && stages == 2 && warps == 4 && tile_kib == 16 && vector_bytes == 16 && blocks_per_sm == 1"
cache=~/.cache/moetune/moetune.db
small_space "$one && l2 == 'normal'"
on_scripted_gpu clocks=100:1/100 moetune search decode_kernel --problem elements=1024 --budget 1 --cache $cache
small_space "$one && l2 == 'evict_first'"
on_scripted_gpu clocks=1000:1/1000 moetune search decode_kernel --problem elements=1024 --budget 1 --cache faster.db
unset MOETUNE_DATA_DIR
moetune cache import faster.db
ln -s packs/h100.pack h200.pack
for name in other a b; do cp packs/h100.pack $name.db; done
