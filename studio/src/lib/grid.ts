/** A virtual grid: only tiles near the screen are in the page. */

export interface Grid {
  columns: number;
  from: number;
  to: number;
  /** Height in pixels of the rows that are not in the page. */
  above: number;
  below: number;
  nearEnd: boolean;
}

const TILE = 210;
const NARROW_TILE = 140;
const GAP = 24;
const NARROW_GAP = 16;
const NARROW = 512;
/** The height of a tile below its square image: title, date and the space between rows. */
const WORDS = 100;
const ROWS_OUTSIDE = 3;

export function gridOf(of: { width: number; top: number; items: number; scroll: number; height: number }): Grid {
  const narrow = of.width < NARROW;
  const gap = narrow ? NARROW_GAP : GAP;
  const columns = Math.max(1, Math.floor((of.width + gap) / ((narrow ? NARROW_TILE : TILE) + gap)));
  const row = (of.width - gap * (columns - 1)) / columns + WORDS;
  const rows = Math.ceil(of.items / columns);
  const first = Math.max(0, Math.min(rows, Math.floor((of.scroll - of.top) / row) - ROWS_OUTSIDE));
  const last = Math.max(first, Math.min(rows, Math.ceil((of.scroll + of.height - of.top) / row) + ROWS_OUTSIDE));
  return {
    columns,
    from: first * columns,
    to: Math.min(of.items, last * columns),
    above: Math.round(first * row),
    below: Math.round((rows - last) * row),
    nearEnd: last >= rows - ROWS_OUTSIDE,
  };
}
