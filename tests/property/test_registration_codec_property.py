"""What a broker says of itself reaches its controller as it was said."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.registration import Registration
from strandline_broker.rpc.cluster.controller_codec import (
    registration_from_wire,
    registration_to_wire,
)
from strandline_proto.v1 import controller_pb2

names = st.text(max_size=12)
several = st.lists(names, max_size=3).map(tuple)
int32 = st.integers(-1, 2**31 - 1)
int64 = st.integers(-1, 2**63 - 1)
endpoints = st.builds(Endpoint, st.text(min_size=1, max_size=12), names, int32)

registrations = st.builds(
    Registration,
    broker_id=int32,
    **dict.fromkeys(("cluster_id", "incarnation_id", "directory_id", "flush_policy"), names),
    **dict.fromkeys(("version", "store_id", "inter_broker_listener", "rack"), names),
    pid=int32,
    controller_epoch=int32,
    metadata_offset=int64,
    listeners=st.lists(endpoints, max_size=3).map(tuple),
    **dict.fromkeys(("log_dirs", "features"), several),
    previous_broker_epoch=int64,
)


@given(registrations)
def test_a_controller_reads_what_a_broker_says_of_itself(said: Registration) -> None:
    sent = registration_to_wire(said).SerializeToString()
    read = registration_from_wire(controller_pb2.BrokerRegistrationRequest.FromString(sent))
    if said.inter_broker_listener == "" and said.listeners:  # it says none: the first one
        said = replace(said, inter_broker_listener=said.listeners[0].listener)
    assert read == said
