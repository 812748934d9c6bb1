cp $ROOT/tests/pages/w.json .
moetune cache merge all.db packs/h100.pack
