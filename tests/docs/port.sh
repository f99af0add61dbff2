# Sourced by frames whose server needs a number: sets port to one that nobody listens at. Not one of those that the
# kernel gives to clients.
for try in 1 2 3 4 5 6 7 8 9 10; do
    port=$((10000 + ($$ * 13 + try * 997) % 20000))
    "$client" 127.0.0.1 "$port" 0 </dev/null >/dev/null 2>&1 || break
done
