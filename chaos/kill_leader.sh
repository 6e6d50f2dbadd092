#!/usr/bin/env bash
# Kills the leader of partition 0 with SIGKILL, again and again, while checking producers and a
# consumer run against the cluster of docker-compose.yml (which must be up).
#
# Ends by itself with a verdict: 0 sound, 1 broken (lost, doubled, reordered, invented records ...),
# 2 no verdict. Variables: ROUNDS (5), SECONDS_DOWN (4) and SECONDS_UP (6) of each round, TOPIC (a
# new name), HISTORY (a file to keep the history in).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The leader that the cluster reports; -1 while there is none.
leader() { describe_topic | grep -o '"leader": -\?[0-9]*' | head -n 1 | grep -o '\-\?[0-9]*$'; }

wait_healthy
start_workload
for round in $(seq "$ROUNDS"); do
    victim=$(leader || echo -1)
    while [ "$victim" = -1 ]; do
        check_time
        sleep 1
        victim=$(leader || echo -1)
    done
    say "round $round of $ROUNDS: broker $victim leads $TOPIC/0"
    break_and_mend "broker-$victim"
done
finish
