/** Stories in the user's own sentences: each sentence is a step, and its caption (`language/own_sentences.py`). */

import { begins, compiledAll, every, has, type Expression } from "./expressions";

export type SentenceExpressions = Record<
  | "abbreviation" | "end" | "mark" | "inlineMark" | "toThePainter" | "command" | "aboutStory"
  | "briefly" | "tells" | "twoEvents" | "noEvent" | "lowerCaseStart" | "lowerCaseEnd" | "noLowerCaseStory",
  Expression
>;

export class OwnSentences {
  private readonly said: Record<keyof SentenceExpressions, RegExp>;

  constructor(expressions: SentenceExpressions, private readonly most: number, private readonly longest: number) {
    this.said = compiledAll(expressions);
  }

  /** The sentences of a story in the user's own words; `null` for any other request. */
  in(text: string): string[] | null {
    const found = this.listed(text) ?? this.toldInLowerCase(text) ?? this.told(text);
    if (!found || found.length < 2 || found.length > this.most || found.some((each) => each.length > this.longest)) return null;
    return found.some((each) => has(this.said.twoEvents, each) || has(this.said.noEvent, each)) ? null : found;
  }

  /** The items of a numbered or bulleted list, one per line or inline. */
  private listed(text: string): string[] | null {
    const lines = linesOf(text).filter((line) => line.trim());
    const marked = lines.map((line) => begins(this.said.mark, line));
    const asItems = (items: string[]) => (items.some((each) => begins(this.said.toThePainter, each)) ? null : items);
    if (marked.filter(Boolean).length >= 2) {
      const first = marked.indexOf(true);
      if (marked.slice(first).includes(false) || !lines.slice(0, first).every((line) => this.isHeading(line))) return null;
      return asItems(lines.slice(first).map((line) => line.replace(this.said.mark, "").trim()));
    }
    const marks = every(this.said.inlineMark, text);
    if (marks.length < 2 || marks.some((mark, place) => Number(mark[1]) !== place + 1)) return null;
    const before = text.slice(0, marks[0]!.index).trim();
    if (before && !this.isHeading(before)) return null;
    return asItems(marks.map((mark, place) => text.slice(mark.index + mark[0].length, marks[place + 1]?.index).trim()));
  }

  /** The statements of a story, without a title and instructions before and after it. */
  private told(text: string): string[] | null {
    let lines = linesOf(text).map((line) => line.trim()).filter(Boolean);
    if (lines.length > 1 && (isTitle(lines[0]!) || this.isHeading(lines[0]!))) lines = lines.slice(1);
    let sentences = lines.flatMap((line) => this.split(line));
    const head = /^([^.!?\n]{0,80}):\s+(?=\S)/.exec(sentences[0] ?? "");
    if (head && this.isHeading(head[0].trim())) sentences[0] = sentences[0]!.slice(head[0].length); // "Please illustrate my story: A cat …"
    else if (sentences.length && this.isInstruction(sentences[0]!)) sentences = sentences.slice(1);
    if (sentences.length && this.isInstruction(sentences.at(-1)!)) sentences = sentences.slice(0, -1);
    if (this.areLines(lines, sentences)) return sentences;
    const isStory = sentences.every((each) => !this.isCommand(each) && !each.replace(/["'”’)]+$/, "").endsWith("?"));
    return isStory && sentences.every(isStatement) ? sentences : null;
  }

  /** The statements of a story without capital letters: "mia has a dog. he is sad. he runs away". */
  private toldInLowerCase(text: string): string[] | null {
    if (has(this.said.noLowerCaseStory, text)) return null;
    const parts = linesOf(text).flatMap((line) => line.split(this.said.lowerCaseEnd));
    let sentences = parts.map((each) => each.trim()).filter(Boolean);
    if (sentences.length && this.isInstruction(sentences.at(-1)!)) sentences = sentences.slice(0, -1);
    const isPlain = (each: string) => wordCount(each) >= 3 && wordCount(each) <= 14 && !this.isCommand(each);
    const isStory = sentences.length >= 3 && sentences.every(isPlain) && sentences.slice(0, -1).every((each) => each.endsWith("."));
    return isStory && this.mostlyTell(sentences) ? sentences : null;
  }

  private mostlyTell(sentences: readonly string[]): boolean {
    return sentences.filter((each) => has(this.said.tells, each)).length * 3 >= sentences.length * 2;
  }

  private split(line: string): string[] {
    const sentences: string[] = [];
    let start = 0;
    for (const end of every(this.said.end, line)) {
      const stop = end.index + end[0].length;
      const rest = line.slice(stop).trimStart();
      const startsAnew = /^\s*\p{Lu}/u.test(line.slice(start)) && end[0] === "." && begins(this.said.lowerCaseStart, rest);
      const goesOn = /^\p{Ll}/u.test(rest) && !startsAnew;
      if (has(this.said.abbreviation, line.slice(start, stop)) || goesOn) continue; // “Stop!” said the cat
      sentences.push(line.slice(start, stop).trim());
      start = stop;
    }
    return [...sentences, line.slice(start).trim()].filter(Boolean);
  }

  /** Whether the sentences are lines without full stops, most of which say what somebody does. */
  private areLines(lines: readonly string[], sentences: readonly string[]): boolean {
    return (
      lines.length >= 3 &&
      sentences.length === lines.length &&
      sentences.every((each, place) => each === lines[place]) &&
      lines.every((each) => wordCount(each) >= 3 && !this.isCommand(each) && !"?,:".includes(each.at(-1)!)) &&
      this.mostlyTell(sentences)
    );
  }

  private isCommand(sentence: string): boolean {
    return begins(this.said.command, sentence);
  }

  /** Whether a sentence asks for images of a story without being a part of it. */
  private isInstruction(sentence: string): boolean {
    const words = wordCount(sentence);
    if (words <= 4 && has(this.said.briefly, sentence)) return true;
    return this.isCommand(sentence) && words <= 14 && has(this.said.aboutStory, sentence);
  }

  /** Whether a line introduces what follows: "My story:" or "# The lost kite". */
  private isHeading(line: string): boolean {
    return line.endsWith(":") || line.startsWith("#") || this.isInstruction(line);
  }
}

function isTitle(line: string): boolean {
  return wordCount(line) <= 8 && !'.!?…"”,;'.includes(line.at(-1)!) && /^\p{Lu}/u.test(line);
}

function isStatement(sentence: string): boolean {
  return '.!…"”\'’'.includes(sentence.at(-1)!) && wordCount(sentence) >= 2;
}

function wordCount(text: string): number {
  return text.split(/\s+/).filter(Boolean).length;
}

function linesOf(text: string): string[] {
  return text.split(/\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/);
}
