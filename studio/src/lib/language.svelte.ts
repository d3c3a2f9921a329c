/** The page's language: the reader's choice, else the first of the browser's languages that has a catalogue. */
import { setLocale } from "./format";
import { catalogues, useCatalogue } from "./text";

const KEY = "interleave-language";
export const NAMES: Record<string, string> = { en: "English", de: "Deutsch" };

export function languageOf(chosen: string | null, wanted: readonly string[]): string {
  const codes = [chosen ?? "", ...wanted].map((code) => code.toLowerCase().split("-")[0] ?? "");
  return codes.find((code) => code in catalogues) ?? "en";
}

let current = $state(languageOf(localStorage.getItem(KEY), navigator.languages));

export const language = {
  get code(): string {
    return current;
  },
  choose(code: string): void {
    localStorage.setItem(KEY, code);
    apply(code);
    current = code;
  },
};

function apply(code: string): void {
  document.documentElement.lang = code;
  setLocale(code);
  useCatalogue(code);
}

apply(current);
