/** Small states for the unit tests. */

import type { Delta, Partition, Replica, Server, State, TimelineEvent } from "../src/state/messages.ts";
import { EMPTY, type World } from "../src/state/world.ts";

export function server(id: number, change: Partial<Server> = {}): Server {
  return {
    id: `broker-${id}`,
    kind: "broker",
    node_id: id,
    address: `127.0.0.1:909${id}`,
    state: "watching",
    state_since_ms: 0,
    reason: null,
    incarnation: null,
    build: null,
    last_event_ms: null,
    server_time_ms: 100_000,
    fenced: false,
    in_controlled_shutdown: false,
    decommissioning: false,
    rack: null,
    lifecycle: "running",
    broker_epoch: null,
    controller_epoch: null,
    last_heartbeat_ms: 99_900,
    session_ends_ms: null,
    metadata_offset: null,
    directories: null,
    records_per_s: null,
    bytes_in_per_s: null,
    bytes_out_per_s: null,
    replicated_bytes_per_s: null,
    ...change,
  };
}

export function partition(change: Partial<Partition> = {}): Partition {
  return {
    topic: "orders",
    partition: 0,
    topic_id: null,
    replicas: [1, 2, 3],
    adding: [],
    removing: [],
    leader: 1,
    leader_epoch: 4,
    partition_epoch: 9,
    isr: [1, 2],
    elr: [],
    last_known_elr: [],
    min_isr: 2,
    recovering: false,
    ...change,
  };
}

export function replica(broker: number, change: Partial<Replica> = {}): Replica {
  return {
    topic: "orders",
    partition: 0,
    broker,
    role: broker === 1 ? "leader" : "follower",
    leader_epoch: 4,
    log_start: 0,
    durable: 90,
    log_end: 100,
    high_watermark: 95,
    size_bytes: null,
    leader: 1,
    partition_epoch: null,
    epoch_start: null,
    epochs: [
      [1, 0],
      [4, 60],
    ],
    epochs_older: 0,
    isr_proposed: null,
    isr_committed: [1, 2],
    elr: [],
    fetchers: null,
    waiters: null,
    waiters_count: null,
    ghosts: null,
    condition: null,
    condition_reason: null,
    healing: null,
    refused_truncation_to: null,
    ...change,
  } as Replica;
}

export function state(change: Partial<State> = {}): State {
  return {
    ...EMPTY.state,
    servers: {
      controller: { ...server(0), id: "controller", kind: "controller" },
      "broker-1": server(1),
      "broker-2": server(2),
      "broker-3": server(3),
    },
    partitions: { "orders:0": partition() },
    replicas: { "orders:0@1": replica(1), "orders:0@2": replica(2), "orders:0@3": replica(3, { log_end: 40 }) },
    ...change,
  };
}

export function world(change: Partial<State> = {}): World {
  return { ...EMPTY, state: state(change) };
}

export function delta(frame: number, at: number, changed: Delta["changed"], removed: Delta["removed"] = {}): Delta {
  return { frame, at_ms: at, summary: null, changed, removed, events: [] };
}

export function event(id: number, kind: TimelineEvent["kind"], at: number): TimelineEvent {
  return {
    id,
    frame: id,
    at_ms: at,
    kind,
    sentence: `event ${id}`,
    server: null,
    server_time_ms: null,
    sequence: null,
    topic: null,
    partition: null,
    broker: null,
    group: null,
    fault: null,
    details: {},
  };
}
