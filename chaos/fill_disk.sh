#!/usr/bin/env bash
# Fills the disk of a broker and makes room again, again and again: see common.sh. The cluster must have
# small disks of its own:
#
#   docker compose -f docker-compose.yml -f chaos/small-disks.yml up --build --detach --wait
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
break_containers disk-full
