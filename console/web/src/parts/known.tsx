/** Values that may be unknown. */

import type { ComponentChildren } from "preact";
import { brief, count } from "../draw/format.ts";
import { epochFill, epochInk } from "../draw/palette.ts";

export function Unknown({ title = "No event has said it" }: { title?: string }) {
  return (
    <span class="unknown" title={title}>
      <span class="sr">unknown</span>
    </span>
  );
}

/** A number in full; hatched if it is unknown. `stale`: the last report of a server that is not watched. */
export function Known({
  value,
  stale = false,
  short = false,
  children,
}: {
  value: number | string | null | undefined;
  stale?: boolean;
  short?: boolean;
  children?: ComponentChildren;
}) {
  if (value === null || value === undefined) return <Unknown />;
  const text = children ?? (typeof value === "number" ? (short ? brief(value) : count(value)) : value);
  if (!stale) return <>{text}</>;
  return (
    <span class="unknown" title="The last report of a server that the console does not watch now">
      <span class="stale">{text}</span>
    </span>
  );
}

export function Epoch({ epoch, stale = false }: { epoch: number | null | undefined; stale?: boolean }) {
  if (epoch === null || epoch === undefined) return <Unknown />;
  if (stale) return <Known value={`e${epoch}`} stale />;
  return (
    <span class="epoch" style={{ background: epochFill(epoch), color: epochInk(epoch) }}>
      e{epoch}
    </span>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty card">
      <h2>{title}</h2>
      <p>{children}</p>
    </div>
  );
}
