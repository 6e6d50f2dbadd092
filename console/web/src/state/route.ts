/** The address after `#`: the page, what it shows, and the instant. */

export const PAGES = ["board", "partition", "groups", "records", "timeline", "faults", "tables"] as const;
export type Page = (typeof PAGES)[number];

export interface Route {
  readonly page: Page;
  /** What the page is about: a partition or a group. Empty: nothing is chosen. */
  readonly item: string;
  /** The instant that is shown; null: live. */
  readonly at: number | null;
  readonly options: { readonly [name: string]: string };
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = splitOnce(hash.replace(/^#\/?/, ""), "?");
  const [name = "", item = ""] = splitOnce(path, "/");
  const page = PAGES.find((one) => one === name) ?? "board";
  const options: Record<string, string> = {};
  let at: number | null = null;
  for (const [key, value] of new URLSearchParams(query)) {
    if (key === "at") at = /^\d{1,16}$/.test(value) ? Number(value) : null;
    else options[key] = value;
  }
  return { page, item: decoded(item), at, options };
}

export function formatRoute(route: Route): string {
  const query = new URLSearchParams(
    Object.entries(route.options).filter(([, value]) => value !== ""),
  );
  if (route.at !== null) query.set("at", String(Math.round(route.at)));
  const item = route.item === "" ? "" : `/${encodeURIComponent(route.item).replaceAll("%3A", ":")}`;
  const text = query.toString();
  return `#/${route.page}${item}${text === "" ? "" : `?${text}`}`;
}

function splitOnce(text: string, mark: string): [string, string?] {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
