#!/usr/bin/env bash
# Kills a broker or the controller with SIGKILL and starts it, again and again: see common.sh.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
break_containers kill
