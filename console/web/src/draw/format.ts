/** Numbers, times and bytes as text. */

const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value: number): string {
  return GROUPED.format(value);
}

/** A number in at most five characters: 999, 1.2k, 34k, 5.6M. */
export function brief(value: number): string {
  const size = Math.abs(value);
  if (size < 1000) return String(Math.round(value));
  const units = ["k", "M", "G", "T"];
  let scaled = value;
  let unit = -1;
  while (Math.abs(scaled) >= 1000 && unit < units.length - 1) {
    scaled /= 1000;
    unit++;
  }
  const digits = Math.abs(scaled) < 10 ? 1 : 0;
  return `${scaled.toFixed(digits).replace(/\.0$/, "")}${units[unit]}`;
}

export function clock(time: number, precise = false): string {
  const at = new Date(time);
  const two = (n: number) => String(n).padStart(2, "0");
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return precise ? `${text}.${String(at.getMilliseconds()).padStart(3, "0")}` : text;
}

export function span(ms: number): string {
  const size = Math.max(0, ms);
  if (size < 1000) return `${Math.round(size)} ms`;
  if (size < 60_000) return `${(size / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(size / 60_000);
  const seconds = Math.round((size % 60_000) / 1000);
  return seconds === 0 ? `${minutes} min` : `${minutes} min ${seconds} s`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let scaled = value;
  let unit = -1;
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit++;
  }
  return `${scaled.toFixed(scaled < 10 ? 1 : 0)} ${units[unit]}`;
}

export function listed(values: readonly (string | number)[]): string {
  return values.length === 0 ? "none" : values.join(", ");
}

/** Text for one line: control characters and the marks that turn text around become visible. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A JSON document with a line for each value. Its text stays: a parsed number would lose digits, and a key given twice one of both. */
export function indentedJson(json: string): string {
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let out = "";
  let depth = 0;
  let before = "";
  for (const token of tokens) {
    const closes = token === "}" || token === "]";
    const isFirst = before === "{" || before === "[";
    if (closes) depth--;
    if (closes ? !isFirst : isFirst || before === ",") out += `\n${"  ".repeat(depth)}`;
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth++;
    before = token;
  }
  return out;
}
