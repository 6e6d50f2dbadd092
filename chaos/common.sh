# What kill_leader.sh and kill_random.sh share; sourced, not run. Their heads tell of the variables.

ROUNDS=${ROUNDS:-5}
SECONDS_UP=${SECONDS_UP:-6}
SECONDS_DOWN=${SECONDS_DOWN:-4}
TOPIC=${TOPIC:-chaos-$(date +%Y%m%d-%H%M%S)}
BROKERS="1 2 3"
BOOTSTRAP=broker-1:9192,broker-2:9192,broker-3:9192

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if docker compose version >/dev/null 2>&1; then COMPOSE="docker compose"; else COMPOSE="docker-compose"; fi

# The whole run is bounded: twice the rounds, and five minutes for what comes before and after.
LIMIT=$((ROUNDS * (SECONDS_UP + SECONDS_DOWN) * 2 + 300))
deadline=$(($(date +%s) + LIMIT))

say() { echo "$(date +%H:%M:%S) $*"; }

check_time() { [ "$(date +%s)" -lt "$deadline" ] || give_up "the run took more than $LIMIT s"; }

give_up() {
    say "no verdict: $*" >&2
    exit 2
}

# on_a_broker COMMAND...: in the first broker that lives.
on_a_broker() {
    local id
    for id in $BROKERS; do
        if $COMPOSE exec -T "broker-$id" "$@" 2>/dev/null; then return 0; fi
    done
    return 1
}

wait_healthy() {
    say "waiting until every broker is in service and every replica in sync"
    until on_a_broker strandline health --bootstrap "$BOOTSTRAP" >/dev/null; do
        check_time
        sleep 1
    done
}

describe_topic() { on_a_broker strandline topic describe "$TOPIC" --bootstrap "$BOOTSTRAP" --format json; }

start_workload() {
    say "starting the checking producers and consumer on topic $TOPIC"
    workload=$($COMPOSE run -d --no-deps workload --bootstrap "$BOOTSTRAP" --topic "$TOPIC" \
        --seconds "$LIMIT" --history /tmp/history.jsonl | tail -n 1)
    trap 'docker rm -f "$workload" >/dev/null 2>&1 || true' EXIT
    until describe_topic >/dev/null; do
        check_time
        check_workload
        sleep 1
    done
}

check_workload() {
    [ "$(docker inspect -f '{{.State.Running}}' "$workload")" = true ] && return
    docker logs --tail 5 "$workload" >&2
    give_up "the workload ended by itself"
}

# break_and_mend SERVICE: SIGKILL, a pause in which the others must do, a restart, another pause.
break_and_mend() {
    check_time
    check_workload
    say "killing $1"
    $COMPOSE kill -s KILL "$1" >/dev/null 2>&1
    sleep "$SECONDS_DOWN"
    say "starting $1"
    $COMPOSE start "$1" >/dev/null 2>&1
    sleep "$SECONDS_UP"
}

# At SIGTERM the workload reads everything back and judges; its exit status is ours.
finish() {
    wait_healthy
    docker kill -s TERM "$workload" >/dev/null
    local status
    status=$(timeout 180 docker wait "$workload") || give_up "the workload does not end"
    docker logs "$workload" 2>/dev/null
    if [ -n "${HISTORY:-}" ]; then docker cp "$workload:/tmp/history.jsonl" "$HISTORY"; fi
    exit "$status"
}
