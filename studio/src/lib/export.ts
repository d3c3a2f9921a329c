/** What a reader chose for an export, as an address and a body of the service. */
import type { operations } from "./openapi";

export type Layout = NonNullable<NonNullable<operations["get_v1_documents_id_document_pdf"]["parameters"]["query"]>["layout"]>;

/** The words of a document in another language: the file that "Words to translate" saves, filled in. */
export interface Texts {
  language: string;
  file: string;
}

export interface ExportChoices {
  layout: Layout;
  /** Tag of the language of the document; empty if nobody said. */
  language: string;
  /** Whether the words of the document are shown beside other languages. */
  original: boolean;
  texts: Texts[];
  bleed: boolean;
  details: boolean;
  notice: boolean;
  sign: boolean;
}

/** Page, image and text of each layout as paths in a field of 40 × 30. */
export const LAYOUTS: Record<Layout, [page: string, image: string, text: string]> = {
  print: ["M10 1h20v28H10z", "M13 4h14v7H13zM13 16h14v7H13z", "M13 13h14M13 25h14M13 27h9"],
  "picture-book": ["M2 5h36v20H2z", "M2 5h18v20H2z", "M23 12.5h12M23 15h12M23 17.5h7"],
  one: ["M10 1h20v28H10z", "M10 1h20v18H10z", "M13 22h14M13 24.5h14M13 27h8"],
  two: ["M10 1h20v28H10z", "M12 3h9v11h-9zM12 16h9v11h-9z", "M23 7h5M23 9.5h5M23 20h5M23 22.5h5"],
  four: ["M10 1h20v28H10z", "M12 3h7.5v8H12zM20.5 3H28v8h-7.5zM12 16h7.5v8H12zM20.5 16H28v8h-7.5z", "M12 13h7M21 13h7M12 26h7M21 26h7"],
  comic: ["M10 1h20v28H10z", "M12 3h16v10H12zM12 15h7.5v12H12zM20.5 15H28v12h-7.5z", "M15 6h6v2.5h-3.5L16 10V8.5h-1zM14 17h4v2h-2l-1 1.2V19h-1z"],
  "how-to": ["M10 1h20v28H10z", "M15 3h6v6.5h-6zM15 11.5h6V18h-6zM15 20h6v6.5h-6z", "M12.5 5v3M12.5 13.5v3M12.5 22v3M23 5h5M23 7.5h4M23 13.5h5M23 16h4M23 22h5M23 24.5h4"],
  worksheet: ["M10 1h20v28H10z", "M12 3h7v7h-7zM12 12h7v7h-7z", "M21 5h7M21 8h1.5M26.5 8H28M23 9h3M21 14h2M26.5 14H28M23.5 15h2.5M21 17h7M12 22h3M17 22h3M22 22h3M12 26h16"],
  labels: ["M10 1h20v28H10z", "M12 7h10v16H12z", "M19 11l4-2h5M17 15h11M18 20l5 1h5"],
  slides: ["M2 5h36v20H2z", "M5 8h15v14H5z", "M23 11.5h12M23 14h12M23 16.5h8"],
};

/** Formats that a choice changes; all others apply to every format. */
export const ONLY: Record<"layout" | "bleed" | "details", string[]> = { layout: ["pdf", "cbz"], bleed: ["pdf"], details: ["html", "zip"] };

/** The tag that a file of words names; empty if it names none. */
export function languageOf(file: string): string {
  return /^language\s*=\s*"([^"]*)"/m.exec(file)?.[1] ?? "";
}

/** The tags to show; empty for the original with all that were added. */
function shown({ language, original, texts }: ExportChoices): string {
  const others = texts.map((each) => each.language);
  if (!texts.length) return language;
  if (!original) return others.join();
  return language ? [language, ...others].join() : "";
}

export function exportAddress(id: string, format: string, choices: ExportChoices): string {
  const applies = (name: keyof typeof ONLY): boolean => ONLY[name].includes(format);
  const query = new URLSearchParams({ download: "1" });
  if (applies("layout")) query.set("layout", choices.layout);
  if (shown(choices)) query.set("language", shown(choices));
  if (choices.bleed && applies("bleed")) query.set("bleed", "true");
  if (choices.details && applies("details")) query.set("details", "true");
  if (choices.notice) query.set("ai_notice", "true");
  if (choices.sign) query.set("sign", "true");
  return `/v1/documents/${encodeURIComponent(id)}/document.${format}?${query}`;
}
