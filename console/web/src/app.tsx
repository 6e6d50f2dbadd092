/** The frame around every page: navigation, notes, the scrubber, the keys. */

import { createContext } from "preact";
import { useContext, useEffect, useReducer, useState } from "preact/hooks";
import { Help, isTyping } from "./parts/help.tsx";
import { Notes } from "./parts/notes.tsx";
import { Scrubber } from "./parts/scrubber.tsx";
import { ThemeSwitch } from "./parts/theme.tsx";
import { Board } from "./pages/board.tsx";
import { FaultLabPage } from "./pages/faults.tsx";
import { Groups } from "./pages/groups.tsx";
import { PartitionPage } from "./pages/partition.tsx";
import { RecordsPage } from "./pages/records.tsx";
import { TablesPage } from "./pages/tables.tsx";
import { TimelinePage } from "./pages/timeline.tsx";
import { formatRoute, type Page, PAGES, parseRoute, type Route } from "./state/route.ts";
import type { Store } from "./state/store.ts";

export interface Console {
  readonly store: Store;
  readonly route: Route;
  /** Changes the address; what is not named stays, but the options belong to their page. */
  go(change: Partial<Route>, replaces?: boolean): void;
}

const Context = createContext<Console | null>(null);

export function useConsole(): Console {
  return useContext(Context) as Console;
}

const TITLES: { readonly [page in Page]: string } = {
  board: "Board",
  partition: "Partition",
  groups: "Groups",
  records: "Records",
  timeline: "Timeline",
  faults: "Fault lab",
  tables: "Tables",
};
const BODIES: { readonly [page in Page]: () => preact.JSX.Element } = {
  board: Board,
  partition: PartitionPage,
  groups: Groups,
  records: RecordsPage,
  timeline: TimelinePage,
  faults: FaultLabPage,
  tables: TablesPage,
};

export function App({ store }: { store: Store }) {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  const [isHelp, setHelp] = useState(false);
  useEffect(() => store.subscribe(() => redraw(0)), [store]);
  useEffect(() => {
    const follow = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    const { at } = parseRoute(location.hash); // a key may have moved the page since it was drawn
    if (store.meta === null && at !== null) return;
    if (at !== store.at && !store.playing) store.go(at);
  }, [store, route.at, store.meta === null, store.newest === 0]);
  useEffect(() => {
    document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    document.title = `${route.item === "" ? TITLES[route.page] : route.item} · Strandline`;
  }, [route.page, route.item]);

  const go = (change: Partial<Route>, replaces = false) => {
    const now = parseRoute(location.hash);
    const isSamePage = change.page === undefined || change.page === now.page;
    const next: Route = {
      ...now,
      ...(isSamePage ? {} : { item: "", options: {} }),
      ...change,
    };
    if (replaces) {
      history.replaceState(null, "", formatRoute(next));
      setRoute(next);
    } else location.hash = formatRoute(next);
  };
  const context: Console = { store, route, go };
  useKeys(context, () => setHelp((is) => !is));

  const Body = BODIES[route.page];
  return (
    <Context.Provider value={context}>
      <header class="top">
        <div class="bar">
          <a class="brand" href={formatRoute({ page: "board", item: "", at: route.at, options: {} })}>
            <Mark /> Strandline
          </a>
          <nav class="tabs" aria-label="Pages">
            {PAGES.map((page) => (
              <a
                key={page}
                href={formatRoute({ page, item: itemFor(page, route), at: route.at, options: {} })}
                aria-current={page === route.page ? "page" : undefined}
              >
                {TITLES[page]}
              </a>
            ))}
          </nav>
          <span class="space" />
          <StreamState />
          <ThemeSwitch />
          <button class="plain icon" title="Keys (?)" aria-label="Keys" onClick={() => setHelp(true)}>
            ?
          </button>
        </div>
        <Notes />
      </header>
      <main id="main" tabIndex={-1}>
        <Body key={route.page} />
      </main>
      <Scrubber />
      {isHelp && <Help onClose={() => setHelp(false)} />}
    </Context.Provider>
  );
}

/** A partition that is looked at stays chosen between the pages that show one. */
function itemFor(page: Page, route: Route): string {
  const ofPartitions = (one: Page) => one === "partition" || one === "records";
  return page === route.page || (ofPartitions(page) && ofPartitions(route.page)) ? route.item : "";
}

function Mark() {
  return (
    <svg width="22" height="16" viewBox="0 0 22 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round">
      <path d="M1.5 3h19" />
      <path d="M1.5 8h13" />
      <path d="M1.5 13h16" />
    </svg>
  );
}

function StreamState() {
  const { store } = useConsole();
  if (store.source.trace !== null) return <span class="link">recording</span>;
  const where = store.meta?.bootstrap ?? "";
  const said = { connecting: "connecting", open: "connected", lost: "console lost" }[store.stream];
  return (
    <span class="link" title={where}>
      <span class={`dot ${store.stream === "open" ? "on" : "off"}`} />
      {said}
      <span class="long faint clip">{where}</span>
    </span>
  );
}

function useKeys({ store, route, go }: Console, toggleHelp: () => void) {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const page = PAGES[Number(event.key) - 1];
      if (page !== undefined) go({ page, item: itemFor(page, route) });
      else if (event.key === "?") toggleHelp();
      else if (event.key === "l") go({ at: null });
      else if (event.key === "k" || event.key === "p") pauseOrPlay({ store, route, go });
      else if (event.key === ",") stepBy({ store, route, go }, -1);
      else if (event.key === ".") stepBy({ store, route, go }, 1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
}

export function pauseOrPlay({ store, go }: Console) {
  if (store.playing) {
    store.stop();
    go({ at: store.at }, true);
  } else if (store.isLive) go({ at: store.newest }, true);
  else store.play();
}

export function stepBy({ store, go }: Console, direction: 1 | -1) {
  void store.step(direction).then(() => go({ at: store.at }, true));
}
