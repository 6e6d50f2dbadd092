#!/usr/bin/env bash
# Kills the leader of partition 0 with SIGKILL and starts it, again and again: see common.sh.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
break_containers kill --victims leader
