/** One sentence for a replica: why it is not in the ISR, from what was reported and nothing else. */

import { count, listed, span } from "../draw/format.ts";
import type { Replica, Server, State } from "./messages.ts";
import { brokerOf, controllerOf, isCurrent, lagOf, type Membership, membership, replicaOf } from "./world.ts";

export function whyNotInSync(state: State, key: string, broker: number): string {
  const known = membership(state, key);
  const name = `Broker ${broker}`;
  if (known.isr === null) return `No server has reported the ISR of ${key}.`;
  const isr = listed(known.isr);
  if (!known.assigned.includes(broker)) {
    return `${name} holds no replica of ${key}: its replicas are on ${listed(known.assigned)}.`;
  }
  if (known.isr.includes(broker)) {
    if (broker === known.leader) return `${name} leads ${key} in epoch ${known.epoch}; the ISR is ${isr}.`;
    const lag = lagOf(state, key, broker);
    const behind = lag === null ? "" : `, ${lag === 0 ? "with all that its leader has" : `${records(lag)} behind its leader`}`;
    return `${name} is in the ISR of ${key} (${isr})${behind}.`;
  }
  const kept = known.elr.includes(broker) ? " It is in the ELR: it has every committed record." : "";
  return `${name} is not in the ISR of ${key} because ${reason(state, key, broker, known)}.${kept}`;
}

function records(lag: number): string {
  return lag === 1 ? "1 record" : `${count(lag)} records`;
}

function reason(state: State, key: string, broker: number, known: Membership): string {
  return (
    ofServer(state, brokerOf(state, broker)) ??
    (isCurrent(state, broker) ? ofReplica(replicaOf(state, key, broker)) : null) ??
    ofLeader(state, key, broker, known) ??
    "no event says why"
  );
}

function ofServer(state: State, server: Server | null): string | null {
  if (server === null) return "no server has reported that broker";
  const age = heartbeatAge(state, server);
  const silent = age === null ? "" : `, its last heartbeat was ${span(age)} old`;
  if (server.in_controlled_shutdown === true) return "it is shutting down";
  if (server.fenced === true) return `the controller has fenced it${silent}`;
  const disk = server.directories?.find((one) => one.condition !== "ok");
  if (disk !== undefined && server.state === "watching") {
    return `its disk ${disk.path} is ${disk.condition}${disk.reason === null ? "" : ` (${disk.reason})`}`;
  }
  return null;
}

function ofReplica(replica: Replica | null): string | null {
  if (replica === null) return null;
  if (replica.condition !== null) {
    const why = replica.condition_reason?.replace(/\.$/, "") ?? "";
    return `its replica needs care: ${replica.condition}${why === "" ? "" : ` (${why})`}`;
  }
  if (replica.healing === true) return "its replica copies again what it cut off before damage";
  if (replica.refused_truncation_to !== null) {
    return `its replica refuses to truncate to ${count(replica.refused_truncation_to)}, below its watermark`;
  }
  return replica.role === "offline" ? "its replica is offline" : null;
}

function ofLeader(state: State, key: string, broker: number, known: Membership): string | null {
  const { leader } = known;
  if (leader === null) return null;
  if (leader < 0) return "the partition has no leader that could let it in";
  if (!isCurrent(state, leader)) return `leader ${leader} does not report to the console`;
  const at = replicaOf(state, key, leader);
  const follower = at?.fetchers?.find((one) => one.broker === broker);
  const lag = lagOf(state, key, broker);
  const gone = isCurrent(state, broker) ? "" : ", and the console does not reach it";
  if (follower === undefined) return lag === null ? null : `it is ${records(lag)} behind leader ${leader}${gone}`;
  if (follower.fetch_offset === null) return `it has not fetched from leader ${leader} in this epoch${gone}`;
  if (lag === 0) return `leader ${leader} has not let it in yet, though it has the whole log`;
  const behind = lag === null ? "it is behind" : `it is ${records(lag)} behind`;
  const now = brokerOf(state, leader)?.server_time_ms ?? null;
  const caught = follower.last_caught_up_ms;
  const age = caught === null || now === null ? null : Math.max(0, now - caught);
  return age === null
    ? `${behind} leader ${leader} and has not caught up in this epoch${gone}`
    : `${behind} leader ${leader} and caught up ${span(age)} ago for the last time${gone}`;
}

/** Age of a broker's last heartbeat, by the controller's clock; null if one of both is unknown. */
export function heartbeatAge(state: State, server: Server): number | null {
  const now = controllerOf(state)?.server_time_ms ?? null;
  const beat = server.last_heartbeat_ms;
  return now === null || beat === null ? null : Math.max(0, now - beat);
}
