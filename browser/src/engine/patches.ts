/** Images as Qwen3-VL reads them: cut into patches, with their positions. */

import type { Pixels } from "./messages";

/** How images are cut, from `processor_config.json`. */
export interface PatchLayout {
  patch: number;
  /** `merge` × `merge` patches become one token. */
  merge: number;
  /** Pixels of an image. */
  least: number;
  most: number;
}
export interface Grid {
  rows: number;
  columns: number;
}

/** The grid of an image. The page's images all have the model's own size, so none is scaled. */
export function gridOf(image: Pixels, layout: PatchLayout): Grid {
  const unit = layout.patch * layout.merge;
  const area = image.width * image.height;
  if (image.width % unit || image.height % unit || area < layout.least || area > layout.most) {
    throw new Error(`an image of ${image.width}×${image.height} would have to be scaled`);
  }
  return { rows: image.height / layout.patch, columns: image.width / layout.patch };
}

/** Each patch of a grid, those of one token after another. */
function* placesOf({ rows, columns }: Grid, merge: number): Generator<[row: number, column: number]> {
  for (let top = 0; top < rows; top += merge)
    for (let left = 0; left < columns; left += merge)
      for (let down = 0; down < merge; down++)
        for (let right = 0; right < merge; right++) yield [top + down, left + right];
}

/** The patches of an image: colour by colour, row by row, from -1 to 1. */
export function cut(image: Pixels, layout: PatchLayout): Float32Array {
  const { patch } = layout;
  const flat = new Float32Array(image.width * image.height * 3);
  let next = 0;
  for (const [row, column] of placesOf(gridOf(image, layout), layout.merge))
    for (let colour = 0; colour < 3; colour++)
      for (let y = row * patch; y < (row + 1) * patch; y++)
        for (let x = column * patch; x < (column + 1) * patch; x++)
          flat[next++] = Math.fround(image.rgb[(y * image.width + x) * 3 + colour]! / 127.5) - 1;
  return flat;
}

/** For each patch: four learned positions, their weights, and its row and column. */
export function patchPositions(grid: Grid, merge: number, side: number) {
  const taps: number[] = [];
  const weights: number[] = [];
  const places: number[] = [];
  for (const [row, column] of placesOf(grid, merge)) {
    places.push(row, column);
    for (const [rowTap, rowWeight] of tapsOf(row, grid.rows, side))
      for (const [columnTap, columnWeight] of tapsOf(column, grid.columns, side)) {
        taps.push(rowTap * side + columnTap);
        weights.push(rowWeight * columnWeight);
      }
  }
  return { taps, weights: Float32Array.from(weights), places };
}

/** The two learned positions beside an index of an axis, and their weights. */
function tapsOf(index: number, size: number, side: number): [tap: number, weight: number][] {
  const place = Math.fround(Math.fround(index * (side - 1)) / Math.max(size - 1, 1));
  const low = Math.floor(place);
  const after = Math.fround(place - low);
  const within = (tap: number) => Math.min(Math.max(tap, 0), side - 1);
  return [
    [within(low), Math.fround(1 - after)],
    [within(low + 1), after],
  ];
}
