/** The number of steps that a request asks for (`interleave.step_counts`), with Python's expressions. */

export interface StepTables {
  named: string[];
  notMeant: string;
  bounded: string;
  unsure: string;
  asMaterial: string;
  moreIsAsked: string;
  instructions: string;
  instructionsAnd: string;
  mentioned: string;
  given: string;
  /** Characters to examine before and after a number. */
  window: number;
  years: [number, number];
  words: Record<string, number>;
}

/** The number of steps a request names ("in four pictures"); `null` if it names none or several. */
export function namedStepCount(request: string, tables: StepTables): number | null {
  const text = request.toLowerCase();
  const value = (number: string) =>
    /^\d+$/.test(number) ? Number(number) : number.split("-").reduce((sum, word) => sum + tables.words[word]!, 0);
  const matches = tables.named.flatMap((pattern) => [...text.matchAll(new RegExp(pattern, "g"))]);
  const counts = new Set(matches.map((match) => value(match[1]!)));
  const [count] = counts;
  if (counts.size !== 1 || !count || (count >= tables.years[0] && count < tables.years[1])) return null;
  if (matches.some((match) => isDoubtful(text, match, tables, value))) return null;
  const given = new RegExp(tables.given);
  const mentioned = [...text.matchAll(new RegExp(tables.mentioned, "g"))]
    .filter((match) => !given.test(text.slice(Math.max(0, match.index - 8), match.index)))
    .map((match) => value(match[1]!));
  return mentioned.every((other) => other === count) ? count : null;
}

/** Whether the words around a number make the requested number of steps uncertain. */
function isDoubtful(text: string, match: RegExpExecArray, tables: StepTables, value: (number: string) => number): boolean {
  const end = match.index + match[0].length;
  const before = text.slice(Math.max(0, match.index - tables.window), match.index);
  const after = text.slice(end, end + tables.window);
  const asks = !match[0].startsWith(match[1]!); // "show 4 pictures", not "4-panel comic"
  if (new RegExp(tables.notMeant).test(before) || (!asks && new RegExp(tables.bounded).test(before))) return true;
  if (begins(tables.unsure, after) || (match[0].startsWith("use") && begins(tables.asMaterial, after))) return true;
  const oneBesideSteps =
    value(match[1]!) === 1 && !/^(?:in|as)/.test(match[0]) && new RegExp(`\\b${tables.instructions}\\b`).test(before + after);
  if (asks && (new RegExp(tables.instructionsAnd).test(before) || oneBesideSteps)) return true;
  return new RegExp(tables.moreIsAsked).test(after);
}

function begins(pattern: string, text: string): boolean {
  return new RegExp(pattern, "y").test(text);
}
