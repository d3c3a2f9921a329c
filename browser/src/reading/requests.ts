/** Checks of a request before any model runs (`interleave_mini.requests`). */

import { compiled, listed, literally, unique, type Expression } from "./expressions";
import { OwnSentences, type SentenceExpressions } from "./own-sentences";
import type { Example, Unknown, Vocabulary } from "./vocabulary";

export interface RequestTables {
  colours: string[];
  uncountable: string[];
  plurals: Record<string, string>;
  /** Nouns of requests, singular and plural → nouns of the world. */
  nounOf: Record<string, string>;
  examples: string[];
  offers: string[];
  companions: string[];
  referring: string;
  mostSentences: number;
  longestSentence: number;
  mostShown: number;
  widestWord: number;
  suggested: number;
  capitals: Expression;
}
/** A request as the planner reads it. */
export interface Accepted {
  text: string;
  /** The user's own sentences, one for each step. */
  captions: string[];
  /** Corrected, exchanged and omitted words, for readers. */
  notes: string[];
}
/** What `PlanCheck` knows of the nouns of a request. */
interface Nouns {
  namedIn(text: string): string[];
  moreThanFit(text: string): string | null;
}

/** A request outside the miniature's world. */
export class Refused extends Error {
  constructor(
    message: string,
    /** Requests that it can do. */
    readonly suggestions: string[],
    /** Unknown word → the word that `nearest` puts in its place. */
    readonly nearest: Record<string, string> = {},
  ) {
    super(message);
  }
}

export class Requests {
  private readonly sentences: OwnSentences;
  private readonly examples: Example[];
  private readonly capitals: RegExp;

  constructor(
    private readonly vocabulary: Vocabulary,
    private readonly tables: RequestTables,
    sentences: SentenceExpressions,
    private readonly nouns: Nouns,
  ) {
    this.sentences = new OwnSentences(sentences, tables.mostSentences, tables.longestSentence);
    this.capitals = compiled(tables.capitals);
    this.examples = vocabulary.examples.filter((each) => !each.text.startsWith(tables.referring));
  }

  /** The request as the planner reads it; with `nearest`, lacking things are exchanged. Throws `Refused`. */
  accept(request: string, nearest = false): Accepted {
    const { vocabulary } = this;
    const wrong = vocabulary.corrections(request);
    const unknown = nearest ? vocabulary.unknownWords(vocabulary.corrected(request, wrong), true) : [];
    const exchanged = Object.entries(this.exchanges(request, unknown));
    const exchange = (text: string) => exchanged.reduce((said, [word, near]) => this.replaced(said, word, near), text);
    const read = (text: string) => this.inLowerCase(vocabulary.corrected(exchange(text), wrong));
    const captions = this.sentences.in(request) ?? [];
    const text = captions.length
      ? captions.map((each, place) => `${place + 1}. ${read(each).replace(/[ .!?…]+$/, "")}`).join("\n")
      : read(request);
    this.check(text);
    return { text, captions, notes: [...this.notes(wrong, exchanged), ...this.leftOutNote(read(request))] };
  }

  /** Known words in capitals are written in lower case, as the planner has learned them. */
  private inLowerCase(text: string): string {
    return text.replace(this.capitals, (word) => (this.vocabulary.isKnown(word) ? word.toLowerCase() : word));
  }

  /** Throw `Refused` for a prompt with words that the miniature does not know. */
  checkPrompt(prompt: string): void {
    const unknown = this.vocabulary.unknownWords(prompt.replace(/^step \d+:.*$/gim, ""));
    if (unknown.length) throw this.refused(prompt, unknown);
  }

  /** Requests that work: first with the things of `text`, then those that share the most words. */
  nearest(text: string, limit = this.tables.suggested): string[] {
    const things = this.nouns.namedIn(text);
    const near = this.like(text);
    const own = this.offersWith(things);
    const withThem = near.filter((each) => this.nouns.namedIn(each).some((thing) => things.includes(thing))).slice(0, 2);
    return unique([...own.slice(0, 1), ...withThem, ...own.slice(1), ...near]).slice(0, limit);
  }

  private check(text: string): void {
    const { examples, suggested, widestWord } = this.tables;
    const unknown = this.vocabulary.unknownWords(text);
    const language = unknown.length ? this.vocabulary.otherLanguage(text) : null;
    if (language) throw new Refused(`the miniature reads English only, and this looks like ${language}: sorry!`, examples.slice(0, suggested));
    if (unknown.length) throw this.refused(text, unknown);
    const tooMany = this.nouns.moreThanFit(text);
    if (tooMany === null) return;
    const message = `the miniature's images have room for nine things, and “${oneLine(tooMany, widestWord)}” are more.`;
    throw new Refused(message, [`Draw nine ${tooMany.split(/\s+/).at(-1)!.toLowerCase()}`]);
  }

  private refused(text: string, unknown: readonly Unknown[]): Refused {
    const { mostShown, widestWord, colours } = this.tables;
    const shown = unknown.slice(0, mostShown).map(({ word, nearest }) => `“${oneLine(word, widestWord)}”${nearest.length ? ` (it has ${listed(nearest)})` : ""}`);
    const more = unknown.length > mostShown ? ` and ${unknown.length - mostShown} more` : "";
    const exchanged = this.exchanges(text, unknown);
    const own = Object.values(exchanged).filter((near) => !colours.includes(near));
    return new Refused(`the miniature does not know ${shown.join(", ")}${more}.`, this.nearest([text, ...own].join(" ")), exchanged);
  }

  /** Each unknown word that has a neighbour, with one that the request does not name yet. */
  private exchanges(text: string, unknown: readonly Unknown[]): Record<string, string> {
    const taken = new Set(plainWords(text));
    const found: Record<string, string> = {};
    for (const { word, nearest } of unknown) {
      if (!nearest.length) continue;
      found[word] = nearest.find((near) => !taken.has(near)) ?? nearest[0]!;
      taken.add(found[word]);
    }
    return found;
  }

  /** Replace a word by its neighbour, with the right number and article. */
  private replaced(text: string, word: string, near: string): string {
    const said = literally(word);
    if (this.isMany(word, near)) return text.replace(new RegExp(`\\b${said}\\b`, "g"), this.tables.plurals[near]!);
    const article = this.withArticle(near);
    return text
      .replace(new RegExp(`\\ban? ${said}\\b`, "g"), article)
      .replace(new RegExp(`\\bAn? ${said}\\b`, "g"), article[0]!.toUpperCase() + article.slice(1))
      .replace(new RegExp(`\\b${said}\\b`, "g"), near);
  }

  private isMany(word: string, near: string): boolean {
    return this.vocabulary.isPlural(word) && !this.tables.colours.includes(near);
  }

  private withArticle(noun: string): string {
    if (this.tables.uncountable.includes(noun)) return `some ${noun}`;
    return `${"aeiou".includes(noun[0]!) ? "an" : "a"} ${noun}`;
  }

  private *notes(wrong: Record<string, string>, exchanged: readonly [word: string, near: string][]): Generator<string> {
    const read = Object.entries(wrong).map(([typed, meant]) => `“${typed}” as “${meant}”`);
    if (read.length) yield `read ${listed(read)}`;
    for (const [word, near] of exchanged) {
      const instead = this.tables.colours.includes(near) ? near : this.isMany(word, near) ? this.tables.plurals[near] : this.withArticle(near);
      yield `no ${word.toLowerCase()} here: ${instead} instead`;
    }
  }

  private *leftOutNote(text: string): Generator<string> {
    const words = this.vocabulary.leftOut(text).map((word) => `“${oneLine(word, this.tables.widestWord)}”`);
    if (words.length) yield `left out: ${words.join(", ")}`;
  }

  /** Requests about these things. */
  private offersWith([thing, second]: readonly string[]): string[] {
    if (thing === undefined) return [];
    const other = [second, ...this.tables.companions].find((each) => each !== undefined && each !== thing)!;
    return this.tables.offers.map((offer) => offer.replace("{0}", this.withArticle(thing)).replace("{1}", this.withArticle(other)));
  }

  /**
   * Requests of different topics, nearest first: a word counts by the share of a topic's wordings that have it, and
   * more where few topics have it.
   */
  private like(text: string): string[] {
    const asked = unique(plainWords(text)).sort();
    const topicsWith = (word: string) => this.examples.filter(({ counts }) => counts.has(word)).length;
    const weights = new Map(asked.map((word) => [word, Math.log(this.examples.length / topicsWith(word))]));
    const nearness = ({ counts, wordings }: Example) =>
      asked.filter((word) => counts.has(word)).reduce((sum, word) => sum + (counts.get(word)! / wordings) * weights.get(word)!, 0);
    const ranked = this.examples.map((each): [number, string] => [nearness(each), each.text]).sort(([one], [other]) => other - one);
    return ranked[0]![0] ? ranked.map(([, each]) => each) : this.tables.examples;
  }
}

function plainWords(text: string): string[] {
  return text.toLowerCase().match(/[a-z]+/g) ?? [];
}

/** The text on one line, shortened to this many characters. */
function oneLine(text: string, width: number): string {
  const line = text.split(/\s+/).filter(Boolean).join(" ");
  return line.length <= width ? line : `${line.slice(0, width - 1).trimEnd()}…`;
}
