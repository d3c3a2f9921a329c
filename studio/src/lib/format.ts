/** Numbers, times and durations as the page's language writes them. */

let locale = "en";

export function setLocale(language: string): void {
  locale = language;
}

/** A whole number with the language's grouping. */
export const figure = (number: number): string => number.toLocaleString(locale);

/** A number with a fixed number of decimals. */
export const decimal = (number: number, places: number): string =>
  number.toLocaleString(locale, { minimumFractionDigits: places, maximumFractionDigits: places });

/** A number and the word that it counts. */
export const count = (number: number, one: string, many: string): string => `${figure(number)} ${number === 1 ? one : many}`;

export function duration(seconds: number): string {
  if (seconds < 10) return `${decimal(seconds, 1)} s`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

const dated = (seconds: number, how: Intl.DateTimeFormatOptions, language = locale): string =>
  new Intl.DateTimeFormat(language, how).format(seconds * 1000);
/** 24 hours, in English too. */
const clockLocale = (): string => (locale === "en" ? "en-GB" : locale);

export const day = (seconds: number): string => dated(seconds, { day: "numeric", month: "short", year: "numeric" });
export const moment = (seconds: number): string => `${day(seconds)}, ${dated(seconds, { hour: "2-digit", minute: "2-digit" }, clockLocale())}`;
export const clock = (seconds: number): string => dated(seconds, { hour: "2-digit", minute: "2-digit", second: "2-digit" }, clockLocale());

/** A quoted sentence without its full stop. */
export const bare = (sentence: string): string => sentence.replace(/\.$/, "");
