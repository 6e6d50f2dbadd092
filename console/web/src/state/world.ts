/** The state at one instant. Worlds are immutable: a delta makes another one, which shares the rest. */

import type {
  Delta,
  Instant,
  Keyframe,
  Partition,
  Replica,
  Server,
  State,
  Window,
  Workload,
} from "./messages.ts";

/** A value that is null while no event has told it. */
export type Told<T> = T | null;

export interface World {
  readonly instant: Instant;
  readonly window: Window;
  readonly state: State;
}

export const EMPTY: World = {
  instant: { frame: 0, at_ms: 0, oldest_ms: 0, newest_ms: 0 },
  window: { first: 0, count: 0, total: 0 },
  state: {
    summary: {
      partitions: null,
      under_replicated: null,
      below_minimum: null,
      offline: null,
      records_per_s: null,
      committed_per_s: null,
      troubled: [],
    },
    servers: {},
    partitions: {},
    replicas: {},
    groups: {},
    faults: {},
    pipelines: {},
    workload: null,
  },
};

export function worldOf(keyframe: Keyframe): World {
  const { instant, window, state } = keyframe;
  return { instant, window, state };
}

const MAPS = ["servers", "partitions", "replicas", "groups", "faults", "pipelines"] as const;
type MapName = (typeof MAPS)[number];
type Entities = Record<string, object>;

/** The world after `deltas`: each map is copied once, and each entity once for each delta. */
export function merge(world: World, deltas: readonly Delta[]): World {
  const last = deltas.at(-1);
  if (last === undefined) return world;
  const maps: Partial<Record<MapName, Entities>> = {};
  const own = (name: MapName): Entities => (maps[name] ??= { ...(world.state[name] as Entities) });
  let { summary, workload } = world.state;
  for (const delta of deltas) {
    if (delta.summary !== null) ({ summary } = delta);
    for (const name of MAPS) {
      // Removals come first: an entity may leave and come back within one frame.
      for (const key of delta.removed[name] ?? []) delete own(name)[key];
      const changed = delta.changed[name];
      if (changed === undefined) continue;
      const map = own(name);
      for (const [key, fields] of Object.entries(changed)) map[key] = { ...map[key], ...fields };
    }
    const counters = delta.changed["workload"]?.[""];
    if (counters !== undefined) workload = { ...workload, ...counters } as Workload;
  }
  return {
    instant: {
      ...world.instant,
      frame: last.frame,
      at_ms: last.at_ms,
      newest_ms: Math.max(world.instant.newest_ms, last.at_ms),
    },
    window: world.window,
    state: { ...world.state, ...(maps as Partial<State>), summary, workload },
  };
}

/** Brokers by number. A broker that only a replica or an assignment names is among them. */
export function brokerIds(state: State): number[] {
  const found = new Set<number>();
  for (const server of Object.values(state.servers)) {
    if (server.kind === "broker" && server.node_id !== null) found.add(server.node_id);
  }
  for (const partition of Object.values(state.partitions)) {
    for (const id of partition.replicas ?? []) found.add(id);
  }
  return [...found].sort((a, b) => a - b);
}

export function brokerOf(state: State, id: number): Server | null {
  return state.servers[`broker-${id}`] ?? null;
}

export function controllerOf(state: State): Server | null {
  return Object.values(state.servers).find((server) => server.kind === "controller") ?? null;
}

/** True if what `broker` reported is what it is now: pages hatch every other report. */
export function isCurrent(state: State, broker: number): boolean {
  return brokerOf(state, broker)?.state === "watching";
}

export function replicaOf(state: State, partition: string, broker: number): Replica | null {
  return state.replicas[`${partition}@${broker}`] ?? null;
}

export interface Name {
  readonly key: string;
  readonly topic: string;
  readonly partition: number;
}

/** A partition's key, and its name on every page: `orders:0`. */
export function keyOf(topic: string, partition: number): string {
  return `${topic}:${partition}`;
}

/** `orders:0` in its two parts. A topic's name holds no colon. */
export function nameOf(key: string): Name {
  const colon = key.lastIndexOf(":");
  const number = Number(key.slice(colon + 1));
  return colon < 0 || !Number.isInteger(number)
    ? { key, topic: key, partition: 0 }
    : { key, topic: key.slice(0, colon), partition: number };
}

/** Partitions of the state in order of topic and number; those that only replicas name, too. */
export function partitionNames(state: State): Name[] {
  const found = new Map<string, Name>();
  const add = (topic: string, partition: number) => {
    const key = keyOf(topic, partition);
    if (!found.has(key)) found.set(key, { key, topic, partition });
  };
  for (const one of Object.values(state.partitions)) add(one.topic, one.partition);
  for (const one of Object.values(state.replicas)) add(one.topic, one.partition);
  return [...found.values()].sort(byName);
}

/** Topics by name, internal ones last. */
export function byName(a: Name, b: Name): number {
  const internal = Number(a.topic.startsWith("__")) - Number(b.topic.startsWith("__"));
  if (internal !== 0) return internal;
  return a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition;
}

/** What is known of a partition's leader and ISR. */
export interface Membership {
  /** -1: no leader. */
  readonly leader: Told<number>;
  readonly epoch: Told<number>;
  readonly isr: Told<readonly number[]>;
  readonly elr: readonly number[];
  readonly assigned: readonly number[];
  readonly minIsr: Told<number>;
}

/** The controller's decision; without one, the newest that a replica has received. */
export function membership(state: State, key: string): Membership {
  const decided: Partition | undefined = state.partitions[key];
  if (decided !== undefined) {
    return {
      leader: decided.leader,
      epoch: decided.leader_epoch,
      isr: decided.isr,
      elr: decided.elr ?? [],
      assigned: decided.replicas ?? [],
      minIsr: decided.min_isr,
    };
  }
  const replicas = brokerIds(state).flatMap((id) => replicaOf(state, key, id) ?? []);
  const newest = replicas.reduce<Replica | null>(
    (best, one) => ((one.leader_epoch ?? -1) > (best?.leader_epoch ?? -1) ? one : best),
    null,
  );
  const leader = replicas.find((one) => one.role === "leader" && one.leader_epoch === newest?.leader_epoch);
  return {
    leader: leader?.broker ?? null,
    epoch: newest?.leader_epoch ?? null,
    isr: newest?.isr_committed ?? null,
    elr: [],
    assigned: replicas.map((one) => one.broker),
    minIsr: null,
  };
}

/** Records of its leader's log that a replica lacks; null if either end is unknown. */
export function lagOf(state: State, key: string, broker: number): Told<number> {
  const { leader } = membership(state, key);
  if (leader === null || leader < 0) return null;
  if (leader === broker) return 0;
  const at = replicaOf(state, key, leader);
  if (at?.log_end == null || !isCurrent(state, leader)) return null;
  const own = isCurrent(state, broker) ? replicaOf(state, key, broker)?.log_end : null;
  if (own != null) return Math.max(0, at.log_end - own);
  const fetched = at.fetchers?.find((one) => one.broker === broker)?.fetch_offset;
  return fetched == null ? null : Math.max(0, at.log_end - fetched);
}
