/** A part of the timeline, chosen by its begin and its end. */

export interface Selected {
  readonly from: number;
  readonly to: number;
}

/** The shortest selection, in milliseconds. */
export const SHORTEST_MS = 1000;

/**
 * The selection with its begin, or its end, at an instant. Without one it reaches to the ends of the recording, as it
 * does where the other side would lie behind.
 */
export function movedTo(side: "begin" | "end", at: number, selection: Selected | null, all: Selected): Selected {
  const range = selection ?? all;
  if (side === "begin") {
    const from = Math.max(all.from, Math.min(at, all.to - SHORTEST_MS));
    return { from, to: range.to >= from + SHORTEST_MS ? range.to : all.to };
  }
  const to = Math.min(all.to, Math.max(at, all.from + SHORTEST_MS));
  return { from: range.from <= to - SHORTEST_MS ? range.from : all.from, to };
}
