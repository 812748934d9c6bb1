moetune cache import packs/h200.pack
cat >misses.json <<'END'
{
 "moetune_misses": 1,
 "hardware": "NVIDIA H200",
 "misses": [
  {
   "kernel": "decode_attention",
   "problem": "batch=8,q_heads=32,context=4096",
   "count": 412
  }
 ]
}
END
