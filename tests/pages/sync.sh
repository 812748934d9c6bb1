# A service that publishes a pack which fleet.pub has signed, and the folder of an inference process with a miss file.
openssl req -x509 -newkey rsa:2048 -nodes -keyout tuner.key -out tuner.pem -days 2 -subj /CN=tuner \
  -addext subjectAltName=DNS:tuner,DNS:localhost 2>/dev/null
export SSL_CERT_FILE=$PWD/tuner.pem
(umask 077; echo "miss 0123456789abcdef0123456789abcdef" >token)
mkdir -p "$FOLDER/var" signed
moetune cache new-key signed/fleet
cp signed/fleet.pub .
cp packs/h100.pack signed/service.pack
moetune cache sign signed/service.pack --key signed/fleet
moetune serve --cache service.db --device replay:decode_attention_h200_b8_c4096 --packs signed --no-publish \
  --listen 127.0.0.1:$PORT --token-file token --tls-cert tuner.pem --tls-key tuner.key >serve.log 2>&1 &
server=$!
until grep -qs http serve.log || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
cat >"$FOLDER/var/misses.json" <<'END'
{"moetune_misses": 1, "hardware": "NVIDIA H200", "misses": [
  {"kernel": "decode_attention", "problem": "batch=8,q_heads=32,context=4096", "count": 412},
  {"kernel": "decode_attention", "problem": "batch=16,q_heads=32,context=4096", "count": 40},
  {"kernel": "decode_attention", "problem": "batch=128,q_heads=32,context=2048", "count": 3}]}
END
mkdir signing
mkdir signing/packs
ln -s ../packs/h100.pack signing/h200.pack
