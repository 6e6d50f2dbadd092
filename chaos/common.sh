# What the scripts of this folder share; sourced, not run.
#
# Each breaks the cluster of docker-compose.yml, which must be up, with one kind of fault, while
# producers, groups and a reader check every record. It ends by itself with a verdict: 0 sound, 1 broken
# (lost, doubled, reordered, invented records ...), 2 no verdict.
#
# Variables: ROUNDS (5), SECONDS_DOWN (4) and SECONDS_UP (6) of each round, SEED (of the choices; printed),
# RATE (records a second of each of two producers: 100),
# HISTORY (a file to keep the history in), PAGE (the page's file), STRANDLINE (the command).

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# break_containers KIND [OPTION...]
break_containers() {
    local rounds=${ROUNDS:-5} down=${SECONDS_DOWN:-4} up=${SECONDS_UP:-6} strandline=${STRANDLINE:-}
    if [ -z "$strandline" ]; then
        if [ -x .venv/bin/strandline ]; then strandline=.venv/bin/strandline; else strandline=strandline; fi
    fi
    exec $strandline chaos live --containers --faults "$@" \
        --rounds "$rounds" --fault-seconds "$down" --rest-seconds "$up" \
        --minutes "$(awk "BEGIN { print ($rounds * ($down + $up) + 10) / 60 }")" \
        ${SEED:+--seed "$SEED"} ${RATE:+--rate "$RATE"} ${HISTORY:+--history "$HISTORY"} ${PAGE:+--page "$PAGE"}
}
