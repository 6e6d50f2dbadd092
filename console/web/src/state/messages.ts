/* Made from strandline_console/messages.py, pipelines.py, answers.py by `make console`. */

export const MESSAGES_VERSION = 3;

export interface Planned {
  readonly topic: string;
  readonly partition: number;
  readonly planned: number | null;
}

export interface TableState {
  readonly name: string;
  readonly layer: "bronze" | "silver" | "state" | "gold" | "quarantine";
  readonly path: string;
  readonly version: number | null;
  readonly rows: number | null;
  readonly files: number | null;
  readonly batch: number | null;
  readonly written_ms: number | null;
  readonly quarantined: number | null;
  readonly error: string | null;
}

export interface Batch {
  readonly table: string;
  readonly number: number;
  readonly state: "planned" | "committed";
  readonly at_ms: number | null;
  readonly sources: readonly Planned[];
}

export interface Pipeline {
  readonly name: string;
  readonly folder: string;
  readonly topics: readonly Planned[];
  readonly tables: readonly TableState[];
  readonly batches: readonly Batch[];
  readonly error: string | null;
  readonly unread: string | null;
}

export interface Server {
  readonly id: string;
  readonly kind: "controller" | "broker";
  readonly node_id: number | null;
  readonly address: string | null;
  readonly state: "connecting" | "watching" | "absent" | "without_watch";
  readonly state_since_ms: number;
  readonly reason: string | null;
  readonly incarnation: string | null;
  readonly build: string | null;
  readonly last_event_ms: number | null;
  readonly server_time_ms: number | null;
  readonly fenced: boolean | null;
  readonly in_controlled_shutdown: boolean | null;
  readonly decommissioning: boolean | null;
  readonly rack: string | null;
  readonly lifecycle: string | null;
  readonly broker_epoch: number | null;
  readonly controller_epoch: number | null;
  readonly last_heartbeat_ms: number | null;
  readonly session_ends_ms: number | null;
  readonly metadata_offset: number | null;
  readonly directories: readonly Directory[] | null;
  readonly records_per_s: number | null;
  readonly bytes_in_per_s: number | null;
  readonly bytes_out_per_s: number | null;
  readonly replicated_bytes_per_s: number | null;
}

export interface Directory {
  readonly path: string;
  readonly condition: string;
  readonly reason: string | null;
}

export interface Partition {
  readonly topic: string;
  readonly partition: number;
  readonly topic_id: string | null;
  readonly replicas: readonly number[] | null;
  readonly adding: readonly number[] | null;
  readonly removing: readonly number[] | null;
  readonly leader: number | null;
  readonly leader_epoch: number | null;
  readonly partition_epoch: number | null;
  readonly isr: readonly number[] | null;
  readonly elr: readonly number[] | null;
  readonly last_known_elr: readonly number[] | null;
  readonly min_isr: number | null;
  readonly recovering: boolean | null;
}

export interface Replica {
  readonly topic: string;
  readonly partition: number;
  readonly broker: number;
  readonly role: "leader" | "follower" | "none" | "offline" | null;
  readonly leader_epoch: number | null;
  readonly log_start: number | null;
  readonly durable: number | null;
  readonly log_end: number | null;
  readonly high_watermark: number | null;
  readonly size_bytes: number | null;
  readonly leader: number | null;
  readonly partition_epoch: number | null;
  readonly epoch_start: number | null;
  readonly epochs: readonly (readonly number[])[] | null;
  readonly epochs_older: number | null;
  readonly isr_proposed: readonly number[] | null;
  readonly isr_committed: readonly number[] | null;
  readonly elr: readonly number[] | null;
  readonly fetchers: readonly Fetcher[] | null;
  readonly waiters: readonly Waiter[] | null;
  readonly waiters_count: number | null;
  readonly ghosts: readonly Ghost[] | null;
  readonly condition: string | null;
  readonly condition_reason: string | null;
  readonly healing: boolean | null;
  readonly refused_truncation_to: number | null;
}

export interface Fetcher {
  readonly broker: number;
  readonly fetch_offset: number | null;
  readonly last_caught_up_ms: number | null;
  readonly in_maximal_isr: boolean;
}

export interface Waiter {
  readonly kind: "produce" | "flush" | "delete_records" | "fetch" | "group";
  readonly offset: number;
  readonly count: number;
}

export interface Ghost {
  readonly start: number;
  readonly end: number;
  readonly reason: string;
  readonly leader_epoch: number | null;
  readonly high_watermark: number;
  readonly acknowledged: boolean | null;
  readonly epochs: readonly (readonly number[])[];
  readonly at_ms: number;
  readonly server_time_ms: number;
}

export interface Group {
  readonly id: string;
  readonly kind: string | null;
  readonly state: string | null;
  readonly epoch: number | null;
  readonly assignment_epoch: number | null;
  readonly assignor: string | null;
  readonly coordinator: number | null;
  readonly coordinator_epoch: number | null;
  readonly members: readonly Member[] | null;
  readonly offsets: { readonly [key: string]: Committed } | null;
  readonly lag: number | null;
}

export interface Member {
  readonly id: string;
  readonly client_id: string;
  readonly client_host: string;
  readonly instance_id: string | null;
  readonly epoch: number;
  readonly assigned: readonly string[];
  readonly target: readonly string[];
}

export interface Committed {
  readonly offset: number;
  readonly leader_epoch: number | null;
  readonly at_ms: number | null;
  readonly lag: number | null;
}

export interface Summary {
  readonly partitions: number | null;
  readonly under_replicated: number | null;
  readonly below_minimum: number | null;
  readonly offline: number | null;
  readonly records_per_s: number | null;
  readonly committed_per_s: number | null;
  readonly troubled: readonly string[];
}

export interface Fault {
  readonly id: string;
  readonly kind: "kill" | "stop" | "pause" | "cut_off" | "slow_disk" | "full_disk";
  readonly target: string;
  readonly state: "active" | "healing" | "healed" | "failed";
  readonly begun_ms: number;
  readonly heals_ms: number;
  readonly healed_ms: number | null;
  readonly sentence: string;
  readonly cost: Cost | null;
}

export interface Cost {
  readonly elections: number | null;
  readonly isr_changes: number | null;
  readonly offline_ms: number | null;
  readonly truncated_records: number | null;
  readonly slowest_acknowledgement_ms: number | null;
  readonly lost: number | null;
  readonly doubled: number | null;
}

export interface Workload {
  readonly state: "stopped" | "running" | "failed";
  readonly topic: string;
  readonly sent: number;
  readonly acknowledged: number;
  readonly read: number;
  readonly lost: number;
  readonly doubled: number;
  readonly failed: number;
  readonly slowest_acknowledgement_ms: number | null;
  readonly error: string | null;
}

export interface State {
  readonly summary: Summary;
  readonly servers: { readonly [key: string]: Server };
  readonly partitions: { readonly [key: string]: Partition };
  readonly replicas: { readonly [key: string]: Replica };
  readonly groups: { readonly [key: string]: Group };
  readonly faults: { readonly [key: string]: Fault };
  readonly pipelines: { readonly [key: string]: Pipeline };
  readonly workload: Workload | null;
}

export interface Instant {
  readonly frame: number;
  readonly at_ms: number;
  readonly oldest_ms: number;
  readonly newest_ms: number;
}

export interface Window {
  readonly first: number;
  readonly count: number;
  readonly total: number;
}

export interface Keyframe {
  readonly run: string;
  readonly instant: Instant;
  readonly window: Window;
  readonly state: State;
}

export interface Delta {
  readonly frame: number;
  readonly at_ms: number;
  readonly summary: Summary | null;
  readonly changed: { readonly [key: string]: { readonly [key: string]: { readonly [key: string]: unknown } } };
  readonly removed: { readonly [key: string]: readonly string[] };
  readonly events: readonly TimelineEvent[];
}

export interface Deltas {
  readonly run: string;
  readonly deltas: readonly Delta[];
  readonly more: boolean;
}

export interface TimelineEvent {
  readonly id: number;
  readonly frame: number;
  readonly at_ms: number;
  readonly kind: "election" | "isr" | "broker" | "reassignment" | "topic" | "truncation" | "loss" | "rebalance" | "controller" | "disk" | "fault" | "server";
  readonly sentence: string;
  readonly server: string | null;
  readonly server_time_ms: number | null;
  readonly sequence: number | null;
  readonly topic: string | null;
  readonly partition: number | null;
  readonly broker: number | null;
  readonly group: string | null;
  readonly fault: string | null;
  readonly details: { readonly [key: string]: string | number | boolean | null };
}

export interface Refusal {
  readonly error: string;
}

export interface Meta {
  readonly messages_version: number;
  readonly build: string;
  readonly run: string;
  readonly bootstrap: string;
  readonly read_only: boolean;
  readonly read_only_reason: string | null;
  readonly has_tables: boolean;
  readonly kept_ms: number;
}

export interface Timeline {
  readonly run: string;
  readonly oldest_ms: number;
  readonly newest_ms: number;
  readonly events: readonly TimelineEvent[];
  readonly more: boolean;
}

export interface LagHistory {
  readonly group: string;
  readonly first_ms: number;
  readonly step_ms: number;
  readonly lags: readonly (number | null)[];
}

export interface Why {
  readonly in_isr: boolean | null;
  readonly sentence: string;
}

export interface Payload {
  readonly size: number;
  readonly text: string | null;
  readonly json: boolean;
  readonly hex: string;
  readonly truncated: boolean;
}

export interface RecordHeader {
  readonly name: string;
  readonly value: Payload | null;
}

export interface BatchHeader {
  readonly base_offset: number;
  readonly last_offset: number;
  readonly leader_epoch: number;
  readonly producer_id: number;
  readonly producer_epoch: number;
  readonly base_sequence: number;
  readonly codec: string;
  readonly timestamp_type: "create" | "append";
  readonly control: boolean;
  readonly transactional: boolean;
  readonly size: number;
  readonly records: number;
}

export interface RecordRow {
  readonly offset: number;
  readonly timestamp_ms: number | null;
  readonly batch: number;
  readonly key: Payload | null;
  readonly value: Payload | null;
  readonly headers: readonly RecordHeader[];
}

export interface Records {
  readonly topic: string;
  readonly partition: number;
  readonly log_start: number | null;
  readonly high_watermark: number | null;
  readonly first_offset: number;
  readonly next_offset: number;
  readonly batches: readonly BatchHeader[];
  readonly records: readonly RecordRow[];
  readonly damage: string | null;
}

export interface FaultChoice {
  readonly kind: "kill" | "stop" | "pause" | "cut_off" | "slow_disk" | "full_disk";
  readonly available: boolean;
  readonly reason: string | null;
}

export interface FaultTarget {
  readonly id: string;
  readonly alive: boolean;
  readonly choices: readonly FaultChoice[];
}

export interface FaultLab {
  readonly available: boolean;
  readonly reason: string | null;
  readonly targets: readonly FaultTarget[];
  readonly duration_s_max: number;
  readonly workload_topic: string;
}

export interface FaultRequest {
  readonly kind: "kill" | "stop" | "pause" | "cut_off" | "slow_disk" | "full_disk";
  readonly target: string;
  readonly duration_s: number;
}

export interface WorkloadRequest {
  readonly running: boolean;
  readonly records_per_s: number;
}

export interface Trace {
  readonly version: number;
  readonly build: string;
  readonly made_ms: number;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly keyframe: Keyframe;
  readonly deltas: readonly Delta[];
  readonly events: readonly TimelineEvent[];
}
