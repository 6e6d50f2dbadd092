#!/usr/bin/env bash
# Kills a broker chosen by chance with SIGKILL, again and again, while checking producers and a consumer
# run against the cluster of docker-compose.yml (which must be up). One round in four kills the
# controller instead.
#
# Ends by itself with a verdict: 0 sound, 1 broken (lost, doubled, reordered, invented records ...),
# 2 no verdict. Variables: ROUNDS (5), SECONDS_DOWN (4) and SECONDS_UP (6) of each round, TOPIC (a
# new name), SEED (of the choices; printed), HISTORY (a file to keep the history in).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SEED=${SEED:-$$}
RANDOM=$SEED
say "SEED=$SEED repeats these choices"

wait_healthy
start_workload
for round in $(seq "$ROUNDS"); do
    if [ $((RANDOM % 4)) = 0 ]; then victim=controller; else victim=broker-$((RANDOM % 3 + 1)); fi
    say "round $round of $ROUNDS"
    break_and_mend "$victim"
done
finish
