"""Questions to the cluster's processes, each with a deadline: which process answers, and its view
of the others.

Plain blocking gRPC calls: these commands ask once and end, so they need neither an event loop nor
the client library's retries.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from strandline_local.errors import ClusterError
from strandline_local.listeners import GRPC, KAFKA, ListenerAddress

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc

    from strandline_proto.v1 import log_dirs_pb2, metadata_pb2
    from strandline_proto.v1.truncations_pb2 import RefusedTruncation

# Above the largest answer to a question about metadata.
_MESSAGE_BYTES_MAX: Final = 64 << 20
CONNECT_MS: Final = 3000
"""Time limit of one attempt to connect. A handshake takes two round trips, and more when a packet
is lost or the machine is busy.
"""
_AGAIN_S: Final = 0.05

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A registered broker as the controller knows it."""

    id: int
    pid: int
    address: str
    """The address of its first listener."""
    state: str
    """FENCED, UNFENCED or CONTROLLED_SHUTDOWN."""
    offline_log_dirs: tuple[str, ...] = ()
    stray_dirs: tuple[str, ...] = ()
    refused_truncations: "tuple[RefusedTruncation, ...]" = ()
    full_log_dirs: tuple[str, ...] = ()
    lacks_descriptors: bool = False
    build: str = ""
    """Version and commit of the build that the broker runs, or ran last."""
    listeners: tuple[ListenerAddress, ...] = ()


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as the broker that holds it describes it."""

    leader_epoch: int
    log_end_offset: int
    high_watermark: int


class NoAnswer(ClusterError):
    """The process at an address did not answer in time."""

    def __init__(self, text: str, *, is_plain: bool = False) -> None:
        super().__init__(text)
        self.is_plain = is_plain
        """True if a retry at once would fail in the same way: no process listens there."""


def ask(
    address: str, timeout_s: float, question: "Callable[[grpc.Channel, float], Answer]"
) -> Answer:
    """The answer to a question that is safe to repeat. It is repeated after a network failure until
    the timeout. A refused connection or an unknown host name is final.
    """
    import grpc

    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", 200),
        ("grpc.dns_min_time_between_resolutions_ms", 200),
        ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    deadline = time.monotonic() + timeout_s
    with grpc.insecure_channel(address, options=options) as channel:
        while True:
            try:
                return question(channel, max(0.001, deadline - time.monotonic()))
            except grpc.RpcError as why:
                if not _is_unavailable(why) or time.monotonic() + _AGAIN_S >= deadline:
                    raise NoAnswer(f"{address} does not answer: {_reason(why)}") from why
                if _is_plain(why):
                    text = f"{address} does not answer: {_reason(why)}"
                    raise NoAnswer(text, is_plain=True) from why
            time.sleep(_AGAIN_S)


def _is_unavailable(why: "grpc.RpcError") -> bool:
    import grpc

    return isinstance(why, grpc.Call) and why.code() is grpc.StatusCode.UNAVAILABLE


def _is_plain(why: "grpc.RpcError") -> bool:
    details = str(getattr(why, "details", str)() or "")
    unresolved = "DNS resolution failed" in details or "errors resolving" in details
    return unresolved or "Connection refused" in details


def _reason(why: "grpc.RpcError") -> str:
    """The reason why a call failed, without the transport's own text where the case is plain."""
    import grpc

    if not isinstance(why, grpc.Call):
        return str(why)
    details = " ".join((why.details() or "").split())
    if why.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "no answer in time"
    if "Connection refused" in details:
        return "connection refused, nothing listens there"
    if why.code() is grpc.StatusCode.UNIMPLEMENTED:
        return "its build does not know this call: upgrade the broker"
    return details or why.code().name


def ask_controller(address: str, timeout_s: float) -> "metadata_pb2.DescribeClusterResponse":
    """The description that the controller at `address` gives of itself and of every registered
    broker.
    """
    from strandline_proto.v1 import metadata_pb2
    from strandline_proto.v1.services_pb2_grpc import ControllerServiceStub

    def question(channel: "grpc.Channel", left_s: float) -> metadata_pb2.DescribeClusterResponse:
        request = metadata_pb2.DescribeClusterRequest()
        stub = ControllerServiceStub(channel)
        return stub.DescribeCluster(request, timeout=left_s, wait_for_ready=True)

    return ask(address, timeout_s, question)


def broker_states(controller: str, timeout_s: float) -> list[BrokerState]:
    """The brokers that are registered with the controller at that address."""
    return states_in(ask_controller(controller, timeout_s))


def states_in(answer: "metadata_pb2.DescribeClusterResponse") -> list[BrokerState]:
    """The brokers of an answer, by id."""
    states = [
        BrokerState(
            id=b.id,
            pid=b.pid,
            address=host_port(b.listeners[0].host, b.listeners[0].port) if b.listeners else "",
            state=b.state,
            listeners=tuple(
                ListenerAddress(
                    each.listener,
                    KAFKA if each.listener in b.kafka_listeners else GRPC,
                    host_port(each.host, each.port),
                )
                for each in b.listeners
            ),
            offline_log_dirs=tuple(b.offline_log_dirs),
            stray_dirs=tuple(b.stray_dirs),
            refused_truncations=tuple(b.refused_truncations),
            full_log_dirs=tuple(b.full_log_dirs),
            lacks_descriptors=b.lacks_descriptors,
            build=b.version,
        )
        for b in answer.brokers
    ]
    return sorted(states, key=lambda b: b.id)


def host_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an address of IP version 6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def ask_cluster(address: str, timeout_s: float) -> "metadata_pb2.DescribeClusterResponse":
    """The controller's description, through a broker."""
    from strandline_proto.v1 import metadata_pb2
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub

    def question(channel: "grpc.Channel", left_s: float) -> metadata_pb2.DescribeClusterResponse:
        request = metadata_pb2.DescribeClusterRequest()
        return BrokerServiceStub(channel).DescribeCluster(request, timeout=left_s)

    return ask(address, timeout_s, question)


def ask_metadata(
    address: str, timeout_s: float, *, topics: bool = False
) -> "metadata_pb2.MetadataResponse":
    """The metadata as the broker at `address` knows it; without topics unless `topics` is set."""
    from strandline_proto.v1 import metadata_pb2
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub

    def question(channel: "grpc.Channel", left_s: float) -> metadata_pb2.MetadataResponse:
        request = metadata_pb2.MetadataRequest(only_named=not topics)
        stub = BrokerServiceStub(channel)
        return stub.Metadata(request, timeout=left_s, wait_for_ready=not topics)

    return ask(address, timeout_s, question)


def replicas_of(address: str, timeout_s: float) -> dict[tuple[str, int], Replica]:
    """Every replica on the broker at `address`, by topic and partition."""
    return {
        (r.topic, r.partition): Replica(r.leader_epoch, r.log_end_offset, r.high_watermark)
        for r in ask_replicas(address, None, timeout_s).replicas
    }


def ask_replicas(
    address: str, topic_id: bytes | None, timeout_s: float
) -> "metadata_pb2.DescribeReplicasResponse":
    """The replicas of one topic, or of all, that the broker at `address` holds."""
    from strandline_proto.v1 import metadata_pb2
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub

    def question(channel: "grpc.Channel", left_s: float) -> metadata_pb2.DescribeReplicasResponse:
        named = [] if topic_id is None else [topic_id]
        topics = [metadata_pb2.DescribeReplicasTopic(topic_id=each) for each in named]
        request = metadata_pb2.DescribeReplicasRequest(topics=topics)
        return BrokerServiceStub(channel).DescribeReplicas(request, timeout=left_s)

    return ask(address, timeout_s, question)


def ask_log_dirs(
    address: str, topics: "list[str]", timeout_s: float
) -> "log_dirs_pb2.DescribeLogDirsResponse":
    """The data directories of the broker at `address`, and its replicas of these topics, or all."""
    from strandline_proto.v1 import log_dirs_pb2
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub

    def question(channel: "grpc.Channel", left_s: float) -> log_dirs_pb2.DescribeLogDirsResponse:
        request = log_dirs_pb2.DescribeLogDirsRequest(topics=topics)
        return BrokerServiceStub(channel).DescribeLogDirs(request, timeout=left_s)

    return ask(address, timeout_s, question)


def ask_clock(address: str, timeout_s: float) -> tuple[float, float]:
    """The lead of the clock of the server at `address` over the one here, and the duration of the
    call; both in milliseconds.
    """
    from strandline_proto.v1 import watch_pb2
    from strandline_proto.v1.services_pb2_grpc import WatchServiceStub

    def question(channel: "grpc.Channel", left_s: float) -> tuple[float, float]:
        # One topic keeps the frame small; it need not exist.
        topics = [watch_pb2.WatchedTopic(topic="__consumer_offsets", partitions=[0])]
        request = watch_pb2.WatchRequest(topics=topics, without_groups=True)
        began = time.time()
        frames = WatchServiceStub(channel).Watch(request, timeout=left_s)
        try:
            frame = next(iter(frames))
        finally:
            frames.cancel()
        took = time.time() - began
        return frame.time_ms - (began + took / 2) * 1000, took * 1000

    return ask(address, timeout_s, question)
