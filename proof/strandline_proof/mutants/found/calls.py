"""Bugs of answers to calls, each under the test that found it."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

FOUND_IN_CALLS: Final = (
    Mutant(
        "length-in-six-bytes-taken",
        "I-98",
        "a message that protobuf refuses is accepted if small, and refused only if large",
        (
            Edit(
                "strandline_proto.hot_decode",
                "    if byte == 0 or number >= 1 << 64:\n",
                "    if number >= 1 << 64:\n",
            ),
        ),
        history="tests/unit/proto/test_hot_messages.py"
        "::test_a_length_in_more_bytes_than_it_needs_is_what_it_is_to_protobuf",
    ),
    Mutant(
        "service-that-is-not-here-called-serving",
        "I-88",
        "a health watch of a service that the process lacks reports it as serving",
        (
            Edit(
                "strandline_broker.rpc.lazy_service",
                "        if service not in self._names:\n",
                "        if not self._names:\n",
            ),
        ),
        history="tests/unit/broker/rpc/cluster/test_metadata.py"
        "::test_who_watches_a_service_that_is_not_here_hears_so",
    ),
    Mutant(
        "host-of-a-member-as-in-a-uri",
        "I-176",
        "the records of a member that came by IPv6 have `/%5B::1%5D` for its host, and so it is"
        " shown",
        (
            Edit(
                "strandline_broker.rpc.groups.codec",
                '    _, _, address = unquote(peer).partition(":")\n',
                '    _, _, address = peer.partition(":")\n',
            ),
        ),
        history="tests/unit/broker/rpc/groups/test_codec.py"
        "::test_a_members_host_is_its_address_as_people_write_it",
    ),
)
