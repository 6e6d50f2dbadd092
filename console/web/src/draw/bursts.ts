/** Events of one kind at one instant, as one thing: a killed broker may cost a hundred elections. */

import type { TimelineEvent } from "../state/messages.ts";

export interface Burst {
  readonly first: TimelineEvent;
  /** Those behind the first. */
  readonly rest: readonly TimelineEvent[];
}

export const BURST_MS = 250;
const BURST_LEAST = 4;

/** Neighbours of one kind that lie close together become one burst; fewer than four stay apart. */
export function burstsOf(events: readonly TimelineEvent[]): Burst[] {
  const runs: TimelineEvent[][] = [];
  for (const event of events) {
    const run = runs.at(-1);
    const last = run?.at(-1);
    const first = run?.[0];
    const near = last !== undefined && first !== undefined && last.kind === event.kind && Math.abs(event.at_ms - first.at_ms) <= BURST_MS;
    if (near && run !== undefined) run.push(event);
    else runs.push([event]);
  }
  return runs.flatMap((run) => {
    if (run.length < BURST_LEAST) return run.map((first) => ({ first, rest: [] }));
    const [first, ...rest] = run as [TimelineEvent, ...TimelineEvent[]];
    return [{ first, rest }];
  });
}
