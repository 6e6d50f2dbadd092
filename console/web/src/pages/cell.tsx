/** One replica on the Board: role, in sync or not, epoch, and how far it is behind. */

import { brief } from "../draw/format.ts";
import { epochFill } from "../draw/palette.ts";
import type { State } from "../state/messages.ts";
import { isCurrent, lagOf, type Membership, replicaOf } from "../state/world.ts";

export type Trouble = "offline" | "below-min" | "under-replicated" | "unknown" | "none";

export function troubleOf({ leader, isr, assigned, minIsr }: Membership): Trouble {
  if (isr === null) return "unknown";
  if (leader !== null && leader < 0) return "offline";
  if (minIsr !== null && isr.length < minIsr) return "below-min";
  return isr.length < assigned.length ? "under-replicated" : "none";
}

export interface CellProps {
  readonly id: string;
  readonly state: State;
  readonly known: Membership;
  readonly partition: string;
  readonly broker: number;
  readonly width: number;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

export function Cell({ id, state, known, partition, broker, width, isChosen, onChoose }: CellProps) {
  const style = { width: `${width}px` };
  const chosen = isChosen ? "chosen" : "";
  if (!known.assigned.includes(broker)) {
    return <span id={id} role="gridcell" class={`cell none ${chosen}`} style={style} onClick={onChoose} aria-label={`Broker ${broker}: no replica`} />;
  }
  const replica = replicaOf(state, partition, broker);
  const isHere = isCurrent(state, broker);
  const isLeader = known.leader === broker;
  const inSync = known.isr?.includes(broker) ?? null;
  const lag = lagOf(state, partition, broker);
  const epoch = isHere ? (replica?.leader_epoch ?? null) : null;
  const kind = inSync === null ? "" : inSync ? "in" : "out";
  const letter = isLeader ? "L" : "F";
  const care = isHere && (replica?.condition != null || replica?.role === "offline");
  return (
    <span
      id={id}
      role="gridcell"
      class={`cell ${kind} ${isLeader ? "lead" : ""} ${isHere ? "" : "gone"} ${chosen}`}
      style={style}
      onClick={onChoose}
      data-broker={broker}
      data-role={isLeader ? "leader" : "follower"}
      data-sync={inSync === null ? "unknown" : inSync ? "yes" : "no"}
      aria-label={`Broker ${broker}: ${isLeader ? "leader" : "follower"}, ${inSync === null ? "ISR unknown" : inSync ? "in sync" : "not in sync"}, ${
        lag === null ? "lag unknown" : `${lag} behind`
      }, ${epoch === null ? "epoch unknown" : `epoch ${epoch}`}`}
    >
      <b>{letter}</b>
      {care && <b class="bad">!</b>}
      {inSync === false && (lag === null || lag === 0) && <small>out</small>}
      {lag !== null && lag > 0 && (
        <span class="lag">
          <i style={{ width: `${lagWidth(lag)}%` }} />
          <em>−{brief(lag)}</em>
        </span>
      )}
      <span class="cell-space" />
      {epoch !== null && (
        <span class="cell-epoch">
          <i style={{ background: epochFill(epoch) }} />
          {epoch}
        </span>
      )}
    </span>
  );
}

/** Logarithmic: one record is seen, a million fills the bar. */
export function lagWidth(lag: number): number {
  return Math.min(100, 8 + (Math.log10(lag + 1) / 6) * 92);
}
