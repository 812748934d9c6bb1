. $ROOT/tests/pages/scripted_gpu.sh
on_scripted_gpu devices=1 moetune search decode_kernel --problem elements=1024 --budget 2
