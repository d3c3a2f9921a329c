/** Routes: the part of the URL after `#`. */

/** A view of a document: reading, its details, slides, a step to redraw, or its words to edit. */
export type Part = "read" | "inside" | "slides" | "step" | "edit";

export type Route =
  | { view: "make" }
  | { view: "library"; query: URLSearchParams }
  | { view: "lab" }
  | { view: "story"; name: string }
  | { view: "shared"; name: string }
  | { view: "reports" }
  | { view: "report"; folder: string; path: string }
  | { view: "queue" }
  | { view: "compare"; ids: string[]; query: URLSearchParams }
  | { view: "judge"; task: string; query: URLSearchParams }
  | { view: "document"; id: string; part: Part; step: number };

const PARTS: Part[] = ["inside", "slides", "step", "edit"];

export function routeOf(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [head, id, part, number] = path.split("/");
  if (head === "library") return { view: "library", query: new URLSearchParams(search) };
  if (head === "reports") {
    const [, folder = "", ...rest] = path.split("/").map(decoded);
    return folder && rest.length ? { view: "report", folder, path: rest.join("/") } : { view: "reports" };
  }
  if (head === "story" && /^[a-z]{1,20}$/.test(id ?? "")) return { view: "story", name: id ?? "" };
  if (head === "s" && /^[0-9a-f]{32}$/.test(id ?? "")) return { view: "shared", name: id ?? "" };
  if (head === "lab") return { view: "lab" };
  if (head === "queue") return { view: "queue" };
  if (head === "compare") return { view: "compare", ids: idsIn(id), query: new URLSearchParams(search) };
  if (head === "judge") return { view: "judge", task: id ?? "", query: new URLSearchParams(search) };
  if (head === "d" && id) {
    const step = /^\d{1,6}$/.test(number ?? "") ? Number(number) : part === "edit" ? 0 : 1;
    const known = PARTS.find((each) => each === part) ?? "read";
    return { view: "document", id: decodeURIComponent(id), part: known, step };
  }
  return { view: "make" };
}

/** The distinct document ids in a URL. */
export function idsIn(text: string | null | undefined): string[] {
  return [...new Set((text ?? "").replaceAll("%2C", ",").split(",").filter((id) => /^\w{1,80}$/.test(id)))];
}

export interface ComparisonState {
  step?: number | null;
  /** The baseline document. */
  base?: string | null;
  /** The seed of a blind comparison's order. */
  blind?: string | null;
  judge?: boolean;
}

function address(path: string, query: Record<string, string | number | null>): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value === null || value === "" ? [] : [[name, String(value)]]));
  const search = new URLSearchParams(given).toString();
  return path + (search ? `?${search}` : "");
}

export const links = {
  make: "#/",
  reports: "#/reports",
  report: (folder: string, path: string): string => `#/reports/${[folder, ...path.split("/")].map(encodeURIComponent).join("/")}`,
  library: "#/library",
  lab: "#/lab",
  story: (name: string): string => `#/story/${name}`,
  shared: (token: string): string => `#/s/${token}`,
  queue: "#/queue",
  compare: (ids: string[] = [], how: ComparisonState = {}): string =>
    address(ids.length ? `#/compare/${ids.join(",")}` : "#/compare", {
      step: how.step ?? null, base: how.base ?? null, blind: how.blind ?? null, judge: how.judge ? 1 : null,
    }),
  judge: (task = "", ids: string[] = []): string => address(task ? `#/judge/${task}` : "#/judge", { runs: ids.join(",") }),
  document: (id: string): string => `#/d/${encodeURIComponent(id)}`,
  inside: (id: string): string => `#/d/${encodeURIComponent(id)}/inside`,
  slides: (id: string, step = 1): string => `#/d/${encodeURIComponent(id)}/slides/${step}`,
  edit: (id: string, step = 0): string => `#/d/${encodeURIComponent(id)}/edit${step ? `/${step}` : ""}`,
  step: (id: string, step: number): string => `#/d/${encodeURIComponent(id)}/step/${step}`,
};

/** Decodes a URL component; returns it unchanged if malformed. */
function decoded(piece: string): string {
  try {
    return decodeURIComponent(piece);
  } catch {
    return piece;
  }
}
