/** Sentences above a page: a server that is not watched, a console that is gone, a request that failed. */

import { useConsole } from "../app.tsx";
import { clock } from "../draw/format.ts";
import type { Server } from "../state/messages.ts";

export function Notes() {
  const { store } = useConsole();
  const servers = Object.values(store.shown.state.servers).filter((one) => one.state !== "watching");
  return (
    <div class="notes" role="status">
      {store.stream === "lost" && (
        <p class="note bad">
          <b>The console's process does not answer</b> since {clock(store.streamSince)}. What you see is its last state;
          the page tries again by itself.
        </p>
      )}
      {store.problem !== "" && (
        <p class="note bad row">
          {store.problem}
          <button class="plain" onClick={() => store.dismiss()}>
            Dismiss
          </button>
        </p>
      )}
      {servers.length > 4 ? (
        <p class="note">
          <b>{servers.length} servers</b> are not watched: {servers.map((one) => one.id).join(", ")}.
        </p>
      ) : (
        servers.map((one) => (
          <p key={one.id} class="note">
            <b>{titled(one)}</b> {said(one)}
          </p>
        ))
      )}
    </div>
  );
}

function titled(server: Server): string {
  const name = server.kind === "controller" ? "The controller" : `Broker ${server.node_id}`;
  return server.address === null ? name : `${name} (${server.address})`;
}

function said(server: Server): string {
  const since = `since ${clock(server.state_since_ms)}`;
  const why = server.reason === null ? "" : ` ${server.reason}`;
  if (server.state === "connecting") return `is being connected to ${since}.${why}`;
  if (server.state === "without_watch") return `has no Watch call: its values stay unknown.${why}`;
  return `is not watched ${since}: its values are the last report.${why}`;
}
