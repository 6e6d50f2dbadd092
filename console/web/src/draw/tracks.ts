/** The tracks of the timeline, and the one on which an event stands. */

import type { TimelineEvent } from "../state/messages.ts";

export interface Track {
  readonly name: string;
  readonly kinds: readonly TimelineEvent["kind"][];
  /** True for what a user looks for first. */
  readonly grave: boolean;
}

export const TRACKS: readonly Track[] = [
  { name: "Faults", kinds: ["fault", "disk"], grave: true },
  { name: "Elections", kinds: ["election", "controller"], grave: false },
  { name: "ISR", kinds: ["isr"], grave: false },
  { name: "Fences", kinds: ["broker"], grave: false },
  { name: "Truncations", kinds: ["truncation", "loss"], grave: true },
  { name: "Rebalances", kinds: ["rebalance"], grave: false },
  { name: "Others", kinds: ["reassignment", "topic", "server"], grave: false },
];

const OTHERS = TRACKS[TRACKS.length - 1] as Track;

export function trackOf(event: TimelineEvent): Track {
  return TRACKS.find((track) => track.kinds.includes(event.kind)) ?? OTHERS;
}
