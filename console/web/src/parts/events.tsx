/** A list of events, newest first; each opens its instant. */

import { useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { burstsOf } from "../draw/bursts.ts";
import { clock, count } from "../draw/format.ts";
import { trackOf } from "../draw/tracks.ts";
import type { TimelineEvent } from "../state/messages.ts";
import { formatRoute } from "../state/route.ts";

export function EventList({ events, most }: { events: readonly TimelineEvent[]; most: number }) {
  if (events.length === 0) return <p class="dim">No event in the last fifteen minutes.</p>;
  const bursts = burstsOf([...events].reverse());
  const shown = bursts.slice(0, most);
  const hidden = bursts.slice(most).reduce((sum, burst) => sum + 1 + burst.rest.length, 0);
  return (
    <ol class="events">
      {shown.map(({ first, rest }) => (
        <Item key={first.id} event={first} rest={rest} />
      ))}
      {hidden > 0 && <li class="dim">{count(hidden)} earlier ones.</li>}
    </ol>
  );
}

function Item({ event, rest }: { event: TimelineEvent; rest: readonly TimelineEvent[] }) {
  const { route, store } = useConsole();
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <li class={store.at !== null && event.at_ms === store.at ? "now" : ""}>
        <a class="mono nowrap" href={formatRoute({ ...route, at: event.at_ms })} title="Show this instant">
          {clock(event.at_ms, true)}
        </a>
        <span class={`event-kind ${trackOf(event).grave ? "bad" : ""}`}>{event.kind}</span>
        <span class="event-text">
          {event.sentence}
          {rest.length > 0 && (
            <button class="plain more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
              {isOpen ? "▾ fewer" : `▸ and ${count(rest.length)} more`}
            </button>
          )}
        </span>
      </li>
      {isOpen && rest.map((one) => <Item key={one.id} event={one} rest={[]} />)}
    </>
  );
}
