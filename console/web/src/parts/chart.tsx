/** A line over time. Seconds without a value are hatched, never bridged. */

import { brief, clock } from "../draw/format.ts";
import { round } from "../draw/axis.ts";
import { useWidth } from "./hooks.ts";

export interface ChartProps {
  readonly first: number;
  readonly step: number;
  readonly values: readonly (number | null)[];
  readonly at: number | null;
  readonly label: string;
}

const HEIGHT = 110;
const LEFT = 40;

export function Chart({ first, step, values, at, label }: ChartProps) {
  const [box, width] = useWidth<HTMLDivElement>(600);
  const top = round(Math.max(1, ...values.map((value) => value ?? 0)));
  const inner = width - LEFT - 6;
  const x = (i: number) => LEFT + (i / Math.max(1, values.length - 1)) * inner;
  const y = (value: number) => HEIGHT - 18 - (value / top) * (HEIGHT - 30);
  const end = first + step * Math.max(0, values.length - 1);
  return (
    <div ref={box}>
      <svg width={width} height={HEIGHT} role="img" aria-label={label} class="chart">
        <defs>
          <pattern id="gap" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <line x1="0" y1="0" x2="0" y2="5" stroke="var(--hatch)" stroke-width="1.4" />
          </pattern>
        </defs>
        {[0, top / 2, top].map((value) => (
          <g key={value}>
            <line x1={LEFT} x2={width - 6} y1={y(value)} y2={y(value)} stroke="var(--line)" />
            <text x={LEFT - 6} y={y(value) + 4} text-anchor="end">
              {brief(value)}
            </text>
          </g>
        ))}
        {gapsOf(values).map(([from, to]) => (
          <rect key={from} x={x(from)} y={y(top)} width={Math.max(1, x(to) - x(from))} height={y(0) - y(top)} fill="url(#gap)" />
        ))}
        <path d={lineOf(values, x, y)} fill="none" stroke="var(--accent)" stroke-width="1.8" stroke-linejoin="round" />
        {at !== null && at >= first && at <= end && (
          <line x1={x((at - first) / step)} x2={x((at - first) / step)} y1="4" y2={HEIGHT - 16} stroke="var(--warn)" stroke-width="1.5" />
        )}
        <text x={LEFT} y={HEIGHT - 3}>
          {values.length === 0 ? "" : clock(first)}
        </text>
        <text x={width - 6} y={HEIGHT - 3} text-anchor="end">
          {values.length === 0 ? "" : clock(end)}
        </text>
      </svg>
    </div>
  );
}

function lineOf(values: readonly (number | null)[], x: (i: number) => number, y: (v: number) => number): string {
  let path = "";
  let isOpen = false;
  values.forEach((value, i) => {
    if (value === null) isOpen = false;
    else {
      path += `${isOpen ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
      if (!isOpen && values[i + 1] == null) path += "h1.5";
      isOpen = true;
    }
  });
  return path;
}

/** Runs of unknown values, as indices. */
export function gapsOf(values: readonly (number | null)[]): [number, number][] {
  const found: [number, number][] = [];
  let from = -1;
  values.forEach((value, i) => {
    if (value === null && from < 0) from = i;
    else if (value !== null && from >= 0) {
      found.push([Math.max(0, from - 1), i]);
      from = -1;
    }
  });
  if (from >= 0) found.push([Math.max(0, from - 1), values.length - 1]);
  return found;
}
