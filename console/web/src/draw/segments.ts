/** A log as a row of segments, one for each leader epoch. */

import type { Ghost, Replica } from "../state/messages.ts";

export interface Segment {
  /** Null: the table does not reach so far back. */
  readonly epoch: number | null;
  readonly from: number;
  readonly to: number;
}

export function segmentsOf(replica: Replica): Segment[] {
  if (replica.log_start === null || replica.log_end === null) return [];
  return cut(replica.epochs ?? [], replica.log_start, replica.log_end);
}

export function segmentsOfGhost(ghost: Ghost): Segment[] {
  return cut(ghost.epochs, ghost.start, ghost.end);
}

function cut(table: readonly (readonly number[])[], from: number, to: number): Segment[] {
  const found: Segment[] = [];
  const add = (epoch: number | null, start: number, end: number) => {
    const first = Math.max(from, start);
    const last = Math.min(to, end);
    if (last > first) found.push({ epoch, from: first, to: last });
  };
  add(null, from, table[0]?.[1] ?? to);
  table.forEach(([epoch, start], i) => add(epoch ?? null, start ?? from, table[i + 1]?.[1] ?? to));
  return found;
}

export interface EpochRow {
  readonly epoch: number;
  /** First offset of the epoch at each replica: null if it has none, undefined if its table is unknown. */
  readonly starts: readonly (number | null | undefined)[];
}

/** The epoch tables of several replicas side by side, newest epoch first. */
export function epochRows(replicas: readonly (Replica | null)[]): EpochRow[] {
  const epochs = new Set<number>();
  for (const replica of replicas) for (const [epoch] of replica?.epochs ?? []) epochs.add(epoch as number);
  return [...epochs]
    .sort((a, b) => b - a)
    .map((epoch) => ({
      epoch,
      starts: replicas.map((replica) => {
        if (replica?.epochs == null) return undefined;
        return replica.epochs.find(([one]) => one === epoch)?.[1] ?? null;
      }),
    }));
}
