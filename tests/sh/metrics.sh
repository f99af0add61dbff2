#!/bin/sh
# hello_prefork's /metrics is what a parser of Prometheus's text format understands, and its numbers
# add up.
. "$(dirname "$0")/lib/serve.sh"
need curl
python=
for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import prometheus_client.parser' 2>/dev/null; then python=$candidate && break; fi
done
test -n "$python" || { echo 'no python3 with prometheus_client'; exit 77; }

began=$(date +%s)
start hello_prefork --listen 127.0.0.1:0 --workers 3 --mode mutex
for request in 1 2 3 4 5 6 7 8 9 10; do test "$(get /)" = hello || fail "request $request"; done
eventually counter_is connections_open 1 || fail 'connections stay open'
# With both, over one connection: the answer is long and comes in more than one piece.
curl -s -S --max-time 20 "http://$address/metrics" -o "$tmp/metrics" "http://$address/" -o "$tmp/body" \
    "http://$address/metrics" -o "$tmp/again" || fail curl
test "$(cat "$tmp/body")" = hello || fail 'a request after /metrics'
"$python" - "$tmp/metrics" "$began" <<'END'
import sys, time
from prometheus_client.parser import text_string_to_metric_families

families = {f.name: f for f in text_string_to_metric_families(open(sys.argv[1]).read())}
assert len(families) >= 40, sorted(families)

def values(name):
    family = families[name.removesuffix("_total")]
    assert family.documentation and family.type != "unknown", family
    return [s for s in family.samples if s.name == name]

def total(name):
    return sum(s.value for s in values(name))

assert total("herd_workers") == 3
assert {s.labels["slot"] for s in values("herd_accepted_total")} == {"0", "1", "2"}
# 10 requests, one or more looks at /counters, and this one, which is still open.
accepted = total("herd_accepted_total")
assert accepted >= 12, accepted
assert total("herd_opened_total") - total("herd_closed_total") - total("herd_lost_total") \
    == total("herd_connections_open") == 1
assert total("herd_requests_total") == accepted
assert sum(s.value for s in values("herd_worker_state")) == 3
assert sum(s.value for s in values("herd_accept_right_held")) <= 1
assert total("herd_waiting_seconds_total") > 0.1
assert total("herd_alive") == 1
# Timestamps of this run, to a few seconds: the machine's clock may be set meanwhile.
for name, most in ("herd_worker_state_since", 3), ("herd_accept_right_since", total("herd_accept_right_held")):
    since = [s.value for s in values(name + "_timestamp_seconds")]
    assert len(since) <= most and families[name + "_timestamp_seconds"].type == "gauge", since
    assert all(int(sys.argv[2]) - 5 <= at <= time.time() + 5 for at in since), since
assert len(values("herd_worker_state_since_timestamp_seconds")) == 3
for name in ("right_held", "accept_delay", "handover", "turn_work"):
    family = families[f"herd_{name}_seconds"]
    assert family.type == "histogram"
    buckets = [s for s in family.samples if s.name.endswith("_bucket")]
    ends = [float(s.labels["le"]) for s in buckets]
    counts = [s.value for s in buckets]
    assert ends == sorted(ends) and counts == sorted(counts) and ends[-1] == float("inf")
    count, = [s.value for s in family.samples if s.name.endswith("_count")]
    assert counts[-1] == count
accept_delay, = [s.value for s in families["herd_accept_delay_seconds"].samples if s.name.endswith("_count")]
assert accept_delay == accepted
END
test $? = 0 || fail 'the metrics do not add up'
if command -v promtool >/dev/null; then
    promtool check metrics <"$tmp/metrics" || fail promtool
fi
stop TERM
exit 0
