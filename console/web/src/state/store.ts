/** What the pages show: the newest state or that of an instant, and the events of the timeline. */

import type { Delta, Meta, TimelineEvent } from "./messages.ts";
import { type Listener, type Place, RequestFailed, type Scope, type Source, scopeQuery } from "./source.ts";
import { EMPTY, merge, type World } from "./world.ts";

export type Stream = "connecting" | "open" | "lost";
const SCOPE_SETTLES_MS = 120;
const ASK_AGAIN_MS = 400;

export class Store {
  meta: Meta | null = null;
  shown: World = EMPTY;
  stream: Stream = "connecting";
  streamSince = Date.now();
  /** The instant that is shown; null: live. */
  at: number | null = null;
  playing = false;
  speed = 1;
  events: readonly TimelineEvent[] = [];
  /** The sentence of the last request that failed; empty: none. */
  problem = "";
  oldest = 0;
  newest = 0;
  /** False from a change of scope until a state of the new scope is shown. */
  isReady = false;

  private live: World = EMPTY;
  private scope: Scope = { kind: "window", first: 0, count: 200, q: "" };
  private close: () => void = () => undefined;
  private listeners = new Set<() => void>();
  private isDrawn = true;
  private asked = 0;
  /** The last move of the instant: a step starts from where it ends. */
  private moved: Promise<void> = Promise.resolve();
  private settles: ReturnType<typeof setTimeout> | undefined;
  private player: Player | null = null;

  constructor(readonly source: Source) {}

  async start(): Promise<void> {
    try {
      this.meta = await this.source.meta();
    } catch (error) {
      this.fail(error);
      setTimeout(() => void this.start(), 1000);
      return;
    }
    this.open();
    await this.loadEvents();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  get isLive(): boolean {
    return this.at === null;
  }

  setScope(scope: Scope): void {
    if (`${scopeQuery(scope)}` === `${scopeQuery(this.scope)}`) return;
    this.scope = scope;
    this.isReady = false;
    clearTimeout(this.settles);
    this.settles = setTimeout(() => {
      this.open();
      this.moved = this.moved.then(() => (this.at === null ? undefined : this.load({ instant: this.at }, false)));
    }, SCOPE_SETTLES_MS);
  }

  /** Shows the state of an instant, or the newest one. */
  go(at: number | null): void {
    this.stop();
    if (at === null || (this.source.trace === null && at >= this.newest)) {
      this.at = at === null ? null : this.newest;
      this.asked++;
      this.shown = this.live;
      this.changed();
      return;
    }
    this.at = Math.max(this.oldest, Math.min(this.newest, at));
    this.changed();
    void this.show({ instant: this.at });
  }

  /** The next or the last frame that changed something on this page. */
  step(direction: 1 | -1): Promise<void> {
    this.stop();
    this.moved = this.moved.then(() => this.stepFrom(this.shown, direction));
    return this.moved;
  }

  private async stepFrom(world: World, direction: 1 | -1): Promise<void> {
    const { frame } = world.instant;
    if (this.at === null) this.at = world.instant.at_ms;
    if (direction === -1) return this.load({ frame: frame - 1 }, true);
    const number = ++this.asked;
    try {
      const [next] = await this.source.deltas(frame, this.scope);
      if (next === undefined || number !== this.asked) return;
      this.shown = merge(world, [next]);
      this.at = next.at_ms;
    } catch (error) {
      this.fail(error);
    }
    this.changed();
  }

  play(): void {
    if (this.at === null) return;
    this.playing = true;
    this.player = new Player(this, this.source, this.scope);
    this.player.run();
    this.changed();
  }

  stop(): void {
    this.player?.stop();
    this.player = null;
    if (!this.playing) return;
    this.playing = false;
    this.changed();
  }

  /** Called by the player: the world at its playhead. */
  played(world: World, at: number): void {
    this.shown = world;
    this.at = at;
    this.changed();
  }

  fail(error: unknown): void {
    this.problem = error instanceof RequestFailed ? error.message : String(error);
    this.changed();
  }

  dismiss(): void {
    this.problem = "";
    this.changed();
  }

  /** Draws once a frame of the screen, however many events came. */
  changed(): void {
    if (!this.isDrawn) return;
    this.isDrawn = false;
    requestAnimationFrame(() => {
      this.isDrawn = true;
      for (const listener of this.listeners) listener();
    });
  }

  private show(place: Place): Promise<void> {
    this.moved = this.load(place, false);
    return this.moved;
  }

  private async load(place: Place, moves: boolean): Promise<void> {
    const number = ++this.asked;
    try {
      const world = await this.source.at(place, this.scope);
      if (number !== this.asked) return;
      this.shown = world;
      this.isReady = true;
      if (moves) this.at = world.instant.at_ms;
    } catch (error) {
      if (number !== this.asked) return;
      this.fail(error);
    }
    this.changed();
  }

  private open(): void {
    this.close();
    const listener: Listener = {
      keyframe: (world) => {
        this.live = world;
        this.oldest = world.instant.oldest_ms;
        this.newest = Math.max(this.newest, world.instant.newest_ms);
        this.arrived();
      },
      delta: (delta) => {
        this.live = merge(this.live, [delta]);
        this.take(delta);
        this.arrived();
      },
      open: () => this.mark("open"),
      lost: () => this.mark("lost"),
    };
    this.close = this.source.stream(this.scope, listener);
  }

  private take(delta: Delta): void {
    this.newest = Math.max(this.newest, delta.at_ms);
    const kept = this.meta?.kept_ms ?? Infinity;
    this.oldest = Math.max(this.oldest, this.newest - kept);
    if (delta.events.length === 0) return;
    const last = this.events.at(-1)?.id ?? -1;
    const fresh = delta.events.filter((event) => event.id > last);
    const first = this.events.findIndex((event) => event.at_ms >= this.oldest);
    this.events = [...this.events.slice(Math.max(0, first)), ...fresh];
  }

  private arrived(): void {
    if (this.at === null) {
      this.shown = this.live;
      this.isReady = true;
    }
    this.changed();
  }

  private mark(stream: Stream): void {
    if (this.stream !== stream) this.streamSince = Date.now();
    const isBack = stream === "open" && this.stream === "lost";
    this.stream = stream;
    this.changed();
    if (isBack) void this.loadEvents();
  }

  private async loadEvents(): Promise<void> {
    try {
      const kept = this.meta?.kept_ms ?? 0;
      const now = Math.max(this.newest, Date.now());
      const old = await this.source.timeline(now - kept, now + 1000);
      const known = new Map(old.map((event) => [event.id, event]));
      if (this.source.trace === null && this.meta?.run !== undefined) {
        for (const event of this.events) if (!known.has(event.id)) known.set(event.id, event);
      }
      this.events = [...known.values()].sort((a, b) => a.id - b.id);
      this.problem = "";
      this.changed();
    } catch (error) {
      this.fail(error);
    }
  }
}

/** Plays on from the instant that is shown, in the order and at the distances of the recording. */
class Player {
  private queue: Delta[] = [];
  private isAsking = false;
  private isDone = false;
  private atEnd = false;
  private lastTick = performance.now();
  private world: World;
  private time: number;

  constructor(
    private readonly store: Store,
    private readonly source: Source,
    private readonly scope: Scope,
  ) {
    this.world = store.shown;
    this.time = store.at ?? store.shown.instant.at_ms;
  }

  run(): void {
    this.lastTick = performance.now();
    void this.fill();
    requestAnimationFrame(() => this.tick());
  }

  stop(): void {
    this.isDone = true;
  }

  private async fill(): Promise<void> {
    if (this.isAsking || this.isDone) return;
    this.isAsking = true;
    const after = this.queue.at(-1)?.frame ?? this.world.instant.frame;
    try {
      const more = await this.source.deltas(after, this.scope);
      this.queue.push(...more);
      this.atEnd = more.length === 0;
    } catch (error) {
      this.store.fail(error);
      this.store.stop();
    }
    setTimeout(() => (this.isAsking = false), this.atEnd ? ASK_AGAIN_MS : 0);
  }

  private tick(): void {
    if (this.isDone) return;
    const now = performance.now();
    const step = (now - this.lastTick) * this.store.speed;
    this.lastTick = now;
    // Without the next deltas the playhead waits: what happened then is not known yet.
    if (this.queue.length > 0 || this.atEnd) this.time += step;
    const due = this.queue.findIndex((delta) => delta.at_ms > this.time);
    const ready = this.queue.splice(0, due < 0 ? this.queue.length : due);
    if (due < 0 && !this.atEnd && ready.length > 0) this.time = Math.min(this.time, ready.at(-1)?.at_ms ?? this.time);
    this.world = merge(this.world, ready);
    const end = this.store.newest;
    if (this.time >= end) {
      const isRecording = this.source.trace !== null;
      this.store.played(this.world, end);
      this.store.stop();
      if (!isRecording) this.store.go(null);
      return;
    }
    this.store.played(this.world, this.time);
    if (this.queue.length < 100) void this.fill();
    requestAnimationFrame(() => this.tick());
  }
}
