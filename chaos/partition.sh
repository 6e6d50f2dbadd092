#!/usr/bin/env bash
# Cuts a broker or the controller off from others, whole or one way, again and again: see common.sh.
# It takes root, `ip` and `nsenter`.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
break_containers partition
