/** Steps through the parts of a long row. It shows nothing for a row that fits. */

import { count } from "../draw/format.ts";
import type { Part } from "../draw/paging.ts";

interface PagerProps {
  readonly part: Part;
  readonly size: number;
  readonly what: string;
  readonly onGo: (first: number) => void;
}

export function Pager({ part, size, what, onGo }: PagerProps) {
  if (part.total <= size) return null;
  return (
    <p class="row pager" data-testid={`pager-${what}`}>
      <button disabled={part.first === 0} aria-label={`Earlier ${what}`} onClick={() => onGo(part.first - size)}>
        ‹
      </button>
      <span class="nowrap" role="status">
        {what} {count(part.first + 1)} to {count(part.end)} of {count(part.total)}
      </span>
      <button disabled={part.end >= part.total} aria-label={`Later ${what}`} onClick={() => onGo(part.first + size)}>
        ›
      </button>
    </p>
  );
}
