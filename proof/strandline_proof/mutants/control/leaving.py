"""Bugs of whoever goes: what it leaves behind."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs

LEAVING: Final = (
    Mutant(
        "ended-fetch-session-is-kept",
        "I-182",
        "a fetch session whose stream has ended goes on listening for news of its partitions",
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
        "the stream of pushes to an incarnation goes on when the next one has its own",
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
        "the descriptor of an index file is not closed when nobody reads it any more",
        (
            Edit(
                "strandline_broker.storage.files.file",
                "        if fd >= 0:\n",
                '        if fd >= 0 and not self.path.endswith(".index"):\n',
            ),
        ),
    ),
)
