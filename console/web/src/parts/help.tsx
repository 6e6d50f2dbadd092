/** The list of keys. */

import { useEffect, useRef } from "preact/hooks";

const KEYS: readonly (readonly [string[], string])[] = [
  [["1", "…", "7"], "Board, Partition, Groups, Records, Timeline, Fault lab, Tables"],
  [["k"], "pause; play on from the instant that is shown"],
  [["l"], "back to live"],
  [[",", "."], "one change back, one change forth"],
  [["←", "→"], "on the scrubber: one second; with Shift ten"],
  [["←", "↑", "↓", "→"], "on the Board: another replica; Enter opens its partition"],
  [["/"], "on the Board: find a topic"],
  [["+", "−", "0"], "on a partition: closer, wider, the end of the logs"],
  [["[", "]"], "on a partition: towards older records, towards newer ones"],
  [["[", "]", "Escape"], "on the Timeline: select from the shown instant, to it; clear the selection"],
  [["?"], "this list"],
];

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, select, textarea");
}

export function Help({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="keys-title">
      <h1 id="keys-title">Keys</h1>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <>
            <dt>
              {keys.map((key) => (key === "…" ? " … " : <kbd key={key}>{key}</kbd>))}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <p class="dim">
        <span class="unknown" /> Hatched: no event has said it. Values on a hatched ground are the last report of a server
        that does not report now.
      </p>
      <form method="dialog" style={{ marginTop: "16px" }}>
        <button class="primary">Close</button>
      </form>
    </dialog>
  );
}
