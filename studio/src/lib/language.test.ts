import { describe, expect, it } from "vitest";
import { count, day, duration, setLocale } from "./format";
import { catalogues, text, useCatalogue } from "./text";

/** The paths of all texts of a catalogue. */
function paths(value: unknown, path = ""): string[] {
  if (typeof value !== "object" || value === null) return [path];
  return Object.entries(value).flatMap(([name, each]) => paths(each, `${path}.${name}`));
}

/** Words that are the same in both languages. */
const SAME = [
  "Interleave", "Studio", catalogues.en?.make.placeholder, "Text", "–", "blind", "Alpha", "Generator", "Benchmarks", "Training",
  "PDF", "EPUB", "PowerPoint",
];

describe("catalogues", () => {
  it("have the same texts", () => {
    for (const catalogue of Object.values(catalogues)) expect(paths(catalogue).sort()).toEqual(paths(catalogues.en).sort());
  });

  it("are translated", () => {
    const flat = (value: unknown, path = ""): [string, unknown][] =>
      typeof value === "object" && value !== null
        ? Object.entries(value).flatMap(([name, each]) => flat(each, `${path}.${name}`))
        : [[path, value]];
    const english = new Map(flat(catalogues.en));
    const left = flat(catalogues.de).filter(([path, words]) => typeof words === "string" && words === english.get(path) && !SAME.includes(words));
    expect(left).toEqual([]);
  });

  it("change with the language, numbers and times too", () => {
    expect(text.nav.make).toBe("New");
    useCatalogue("de");
    setLocale("de");
    expect(text.nav.make).toBe("Neu");
    expect([duration(1.5), count(12345, "Bild", "Bilder"), day(0)]).toEqual(["1,5 s", "12.345 Bilder", "1. Jan. 1970"]);
    useCatalogue("xx");
    expect(text.nav.make).toBe("New");
    setLocale("en");
  });
});
