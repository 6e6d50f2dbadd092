/** Colours of leader epochs. An epoch keeps its colour on every page; its number stands beside it. */

export const EPOCH_COLOURS = 6;

export function epochFill(epoch: number): string {
  return `var(--e${((epoch % EPOCH_COLOURS) + EPOCH_COLOURS) % EPOCH_COLOURS})`;
}

export function epochInk(epoch: number): string {
  return `var(--e${((epoch % EPOCH_COLOURS) + EPOCH_COLOURS) % EPOCH_COLOURS}-ink)`;
}
