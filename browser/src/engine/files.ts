/** The files of the models: their names in `models.json`, their bytes from a function of the page or of a test. */

import { sha256 } from "@noble/hashes/sha2.js";

export type Read = (name: string) => Promise<Uint8Array<ArrayBuffer>>;

export async function readJson<T>(read: Read, name: string): Promise<T> {
  return JSON.parse(new TextDecoder().decode(await read(name))) as T;
}

interface Entry {
  dtype: "F16" | "F32" | "I64";
  shape: number[];
  data_offsets: [number, number];
}

/** One tensor of a safetensors file, floats in single precision. */
export function readTensor(file: Uint8Array, name: string): { shape: number[]; values: Float32Array } {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length))) as Record<string, Entry>;
  const entry = header[name];
  if (!entry) throw new Error(`the weights have no tensor '${name}'`);
  const [begin, end] = entry.data_offsets;
  const bytes = file.slice(8 + length + begin, 8 + length + end).buffer;
  if (entry.dtype === "F16") return { shape: entry.shape, values: fromHalf(new Uint16Array(bytes)) };
  if (entry.dtype === "F32") return { shape: entry.shape, values: new Float32Array(bytes) };
  throw new Error(`the tensor '${name}' is of the type ${entry.dtype}`);
}

/** Half precision as single precision, by a table of all 65,536 values. */
function fromHalf(halves: Uint16Array): Float32Array {
  const single = Float32Array.from({ length: 0x10000 }, (_, bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
  });
  return Float32Array.from(halves, (bits) => single[bits]!);
}

/** The first 31 bits of a SHA-256 digest: the seed of an attempt (`derived_seed` of pipeline.py). */
export function seedFrom(text: string): number {
  const digest = sha256(new TextEncoder().encode(text));
  return new DataView(digest.buffer, digest.byteOffset).getUint32(0) >>> 1;
}
