/** A part of a long row of things, so that a page of ten thousand never freezes. */

export interface Part {
  readonly first: number;
  /** Exclusive. */
  readonly end: number;
  readonly total: number;
}

/** The part of `size` things that begins at `wanted`, which a link may name: it lies within the row, at a multiple of the size. */
export function partOf(total: number, wanted: number, size: number): Part {
  const last = Math.max(0, Math.ceil(total / size) - 1) * size;
  const first = Number.isFinite(wanted) ? Math.min(last, Math.max(0, Math.floor(wanted / size) * size)) : 0;
  return { first, end: Math.min(total, first + size), total };
}
