/** An axis of offsets: which part of it is shown, and where an offset stands. */

export interface Range {
  readonly from: number;
  readonly to: number;
}

export interface Scale extends Range {
  readonly width: number;
  x(offset: number): number;
}

/** Marks at both ends have room. */
export const INSET = 7;

export function scale(range: Range, width: number): Scale {
  const length = Math.max(1e-9, range.to - range.from);
  const inner = Math.max(1, width - 2 * INSET);
  return { ...range, width, x: (offset) => INSET + ((offset - range.from) / length) * inner };
}

const STEPS = [1, 2, 5, 10];

/** The least of 1, 2, 5, 10, 20, 50 ... that is not below `value`. */
export function round(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return (STEPS.find((step) => step * power >= value) ?? 10) * power;
}

/** At most `most` round offsets. */
export function ticks(range: Range, most: number): number[] {
  const length = range.to - range.from;
  if (length <= 0 || most < 1) return [];
  const step = round(length / most);
  const found: number[] = [];
  for (let at = Math.ceil(range.from / step) * step; at <= range.to; at += step) found.push(at);
  return found;
}

/** The end of the logs, with every mark that stands behind it. Its length has few values, so that
 * the picture does not stretch with each append. */
export function tail(marks: readonly number[], start: number): Range {
  const end = Math.max(start, ...marks);
  const low = Math.min(end, ...marks);
  const wanted = Math.max(10, (end - low) * 1.5);
  const step = round(wanted / 8);
  const length = Math.ceil(wanted / step) * step;
  return { from: Math.max(start, end - length), to: end + length * 0.05 };
}

export function whole(start: number, end: number): Range {
  const length = Math.max(1, end - start);
  return { from: start, to: end + length * 0.05 };
}

/** `range` by `factor` as long, around its end. */
export function zoom(range: Range, factor: number, all: Range): Range {
  const length = Math.max(4, Math.min(all.to - all.from, (range.to - range.from) * factor));
  return slide({ from: range.to - length, to: range.to }, 0, all);
}

export function slide(range: Range, by: number, all: Range): Range {
  const length = range.to - range.from;
  const from = Math.max(all.from, Math.min(all.to - length, range.from + by));
  return { from, to: from + length };
}
