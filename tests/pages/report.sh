cp packs/h100.pack before.db
cp packs/h100.pack after.db
moetune search router --preset deepseek-v3 --problem tokens=64,outputs=weights --budget 80 --no-compile
moetune search decode_attention --no-compile
