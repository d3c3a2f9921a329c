import { describe, expect, it } from "vitest";
import { exportAddress, languageOf, type ExportChoices } from "./export";

const plain: ExportChoices = { layout: "comic", language: "", original: true, texts: [], bleed: true, details: true, notice: false, sign: false };
const german = { language: "de", file: "" };
const query = (format: string, more: Partial<ExportChoices> = {}): Record<string, string> =>
  Object.fromEntries(new URL(exportAddress("a b", format, { ...plain, ...more }), "http://x").searchParams);

describe("the address of an export", () => {
  it("names only what the format takes", () => {
    expect(query("pdf")).toEqual({ download: "1", layout: "comic", bleed: "true" });
    expect(query("html")).toEqual({ download: "1", details: "true" });
    expect(query("epub", { notice: true, sign: true })).toEqual({ download: "1", ai_notice: "true", sign: "true" });
    expect(exportAddress("a b", "epub", plain)).toContain("/v1/documents/a%20b/document.epub?");
  });

  it("names the languages to show", () => {
    expect(query("epub", { language: "en" }).language).toBe("en");
    expect(query("epub", { texts: [german] }).language).toBeUndefined();
    expect(query("epub", { language: "en", texts: [german] }).language).toBe("en,de");
    expect(query("epub", { language: "en", texts: [german], original: false }).language).toBe("de");
  });
});

it("reads the language of a file of words", () => {
  expect(languageOf('# of “x”\nlanguage = "pt-BR"\n')).toBe("pt-BR");
  expect(languageOf('language = ""\n')).toBe("");
  expect(languageOf("no words")).toBe("");
});
