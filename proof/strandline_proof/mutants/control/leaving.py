"""Bugs of streams and files that end: what they leave behind."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs

LEAVING: Final = (
    Mutant(
        "ended-fetch-session-is-kept",
        "I-182",
        "a fetch session whose stream has ended stays subscribed to its partitions",
        (
            Edit(
                "strandline_broker.hosts.fetching.session_partitions",
                "                partition.role.forget(self)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "ended-stream-of-a-member-is-kept",
        "I-182",
        "a member's stream that has ended stays in the coordinator's list",
        (
            Edit(
                "strandline_broker.rpc.groups.session",
                "            host.sessions.close(session.stream)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "replaced-push-stream-goes-on",
        "I-182",
        "the push stream of an incarnation continues when the next incarnation has its own",
        (
            Edit(
                "strandline_broker.hosts.controller.pusher",
                "            old[1].cancel()\n",
                "            pass\n",
            ),
        ),
        Needs(kinds=("kill", "crash-loop")),
    ),
    Mutant(
        "index-file-stays-open",
        "I-182",
        "the descriptor of an index file stays open after its last reader",
        (
            Edit(
                "strandline_broker.storage.files.file",
                "        if fd >= 0:\n",
                '        if fd >= 0 and not self.path.endswith(".index"):\n',
            ),
        ),
    ),
)
