/** Messages of a report in its frame. Reports are untrusted: every field is checked. */

export interface ShownImage {
  source: string;
  alt: string;
  number: number;
  of: number;
}

export type ReportMessage = { kind: "at"; path: string; hash: string } | { kind: "image"; image: ShownImage };

const MAX_WORDS = 2000;
const IMAGE_DATA = /^data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]*$/;

/** A path, encoded for a URL. */
export function inAddress(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** Parses a message; null if it is invalid. `address` is the URL prefix of the report's folder. */
export function parseMessage(data: unknown, address: string, origin: string): ReportMessage | null {
  if (typeof data !== "object" || data === null) return null;
  const said = data as Record<string, unknown>;
  if (said.interleave !== "report") return null;
  if (typeof said.image === "string") {
    const source = imageFrom(said.image, address, origin);
    if (!source) return null;
    const image = { source, alt: words(said.alt), number: whole(said.number), of: whole(said.of) };
    return { kind: "image", image };
  }
  if (typeof said.at !== "string" || !said.at.startsWith(address)) return null;
  try {
    return { kind: "at", path: decodeURIComponent(said.at.slice(address.length)), hash: words(said.hash) };
  } catch {
    return null;
  }
}

/** An image that may be shown: one in the page itself, or one of the same folder. */
function imageFrom(source: string, address: string, origin: string): string | null {
  if (source.startsWith("data:")) return IMAGE_DATA.test(source) ? source : null;
  try {
    const url = new URL(source);
    return url.origin === origin && url.pathname.startsWith(address) ? url.pathname : null;
  } catch {
    return null;
  }
}

const words = (value: unknown): string => (typeof value === "string" ? value.slice(0, MAX_WORDS) : "");
const whole = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0);
