#!/usr/bin/env bash
# Freezes a broker or the controller and lets it go on, again and again: see common.sh.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
break_containers pause
