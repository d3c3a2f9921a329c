/** Pixel differences of two images. */

/** Visibility threshold of a colour difference, of 255. */
const VISIBLE = 16;

export interface PixelDifference {
  /** The second image, faded, with differing pixels in colour. */
  overlay: Uint8ClampedArray<ArrayBuffer>;
  /** Share of visibly differing pixels. */
  share: number;
}

/** Compares two images of the same size, given as RGBA values. */
export function difference(a: Uint8ClampedArray, b: Uint8ClampedArray): PixelDifference {
  const overlay = new Uint8ClampedArray(b.length);
  let differing = 0;
  for (let at = 0; at < b.length; at += 4) {
    const [ar = 0, ag = 0, ab = 0] = [a[at], a[at + 1], a[at + 2]];
    const [br = 0, bg = 0, bb = 0] = [b[at], b[at + 1], b[at + 2]];
    const most = Math.max(Math.abs(ar - br), Math.abs(ag - bg), Math.abs(ab - bb));
    if (most > VISIBLE) {
      differing++;
      overlay.set([214, 20, 140, 255], at);
    } else {
      const pale = 200 + (br + bg + bb) / 15;
      overlay.set([pale, pale, pale, 255], at);
    }
  }
  return { overlay, share: b.length ? differing / (b.length / 4) : 0 };
}

/** Loads an image and returns its RGBA values, scaled to `size` if given. */
export async function valuesOf(address: string, size?: { width: number; height: number }): Promise<ImageData> {
  const image = new Image();
  image.src = address;
  await image.decode();
  const { width, height } = size ?? { width: image.naturalWidth, height: image.naturalHeight };
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error("no canvas");
  context.drawImage(image, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}
