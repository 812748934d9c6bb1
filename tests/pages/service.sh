cp $ROOT/tests/pages/w.json workloads.json
openssl req -x509 -newkey rsa:2048 -nodes -keyout tuner.key -out tuner.pem -days 2 -subj /CN=tuner \
  -addext subjectAltName=DNS:tuner,DNS:localhost 2>/dev/null
