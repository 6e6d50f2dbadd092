/** A recording in memory, replayed to any instant. */

import type { Delta } from "./messages.ts";
import { merge, type World } from "./world.ts";

const KEYFRAME_EVERY = 200;

export class History {
  private readonly keyframes: World[] = [];

  constructor(
    start: World,
    readonly deltas: readonly Delta[],
  ) {
    let world = start;
    this.keyframes.push(world);
    for (let i = 0; i < deltas.length; i += KEYFRAME_EVERY) {
      world = merge(world, deltas.slice(i, i + KEYFRAME_EVERY));
      this.keyframes.push(world);
    }
  }

  get last(): World {
    return this.keyframes[this.keyframes.length - 1] as World;
  }

  /** The world after the last delta that is not younger than `time`. */
  at(time: number): World {
    return this.after(this.countUntil((delta) => delta.at_ms <= time));
  }

  /** The world of frame `frame`, or of the last one before it. */
  frame(frame: number): World {
    return this.after(this.countUntil((delta) => delta.frame <= frame));
  }

  deltasAfter(frame: number): readonly Delta[] {
    return this.deltas.slice(this.countUntil((delta) => delta.frame <= frame));
  }

  private after(count: number): World {
    const full = Math.floor(count / KEYFRAME_EVERY);
    const world = this.keyframes[full] as World;
    return merge(world, this.deltas.slice(full * KEYFRAME_EVERY, count));
  }

  private countUntil(isBefore: (delta: Delta) => boolean): number {
    let low = 0;
    let high = this.deltas.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.deltas[middle] as Delta)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
