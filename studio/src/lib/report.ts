/** What a report in its frame tells the studio. A report is a stranger's page: nothing of it is taken on trust. */

export interface ShownPicture {
  source: string;
  alt: string;
  number: number;
  of: number;
}

export type Heard = { kind: "at"; path: string; hash: string } | { kind: "picture"; picture: ShownPicture };

const MOST_WORDS = 2000;
const PICTURE_DATA = /^data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]*$/;

/** A path as it stands in an address. */
export function inAddress(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** What a message says, or null. `address` is what stands before the paths of the report's folder. */
export function heard(data: unknown, address: string, origin: string): Heard | null {
  if (typeof data !== "object" || data === null) return null;
  const said = data as Record<string, unknown>;
  if (said.interleave !== "report") return null;
  if (typeof said.picture === "string") {
    const source = pictureFrom(said.picture, address, origin);
    if (!source) return null;
    const picture = { source, alt: words(said.alt), number: whole(said.number), of: whole(said.of) };
    return { kind: "picture", picture };
  }
  if (typeof said.at !== "string" || !said.at.startsWith(address)) return null;
  try {
    return { kind: "at", path: decodeURIComponent(said.at.slice(address.length)), hash: words(said.hash) };
  } catch {
    return null;
  }
}

/** A picture that may be shown: one in the page itself, or one of the same folder. */
function pictureFrom(source: string, address: string, origin: string): string | null {
  if (source.startsWith("data:")) return PICTURE_DATA.test(source) ? source : null;
  try {
    const url = new URL(source);
    return url.origin === origin && url.pathname.startsWith(address) ? url.pathname : null;
  } catch {
    return null;
  }
}

const words = (value: unknown): string => (typeof value === "string" ? value.slice(0, MOST_WORDS) : "");
const whole = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0);
