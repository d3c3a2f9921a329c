/** Python's regular expressions, which the build writes as data, and Python's ways to use them. */

/** The source of an expression and its flags. */
export type Expression = [source: string, flags: string];

/** An expression that finds all its matches. */
export function compiled([source, flags]: Expression): RegExp {
  return new RegExp(source, `${flags}g`);
}

export function compiledAll<Name extends string>(expressions: Record<Name, Expression>): Record<Name, RegExp> {
  const pairs = Object.entries<Expression>(expressions).map(([name, each]) => [name, compiled(each)]);
  return Object.fromEntries(pairs) as Record<Name, RegExp>;
}

/** An expression that matches a whole text or nothing. */
export function wholly([source, flags]: Expression): RegExp {
  return new RegExp(`^(?:${source})$`, flags);
}

export function every(pattern: RegExp, text: string): RegExpExecArray[] {
  return [...text.matchAll(pattern)];
}

export function has(pattern: RegExp, text: string): boolean {
  return text.search(pattern) >= 0;
}

export function begins(pattern: RegExp, text: string): boolean {
  return text.search(pattern) === 0;
}

/** The groups of a match of a whole text, by their names. */
export function groupsOf(pattern: RegExp, text: string): Record<string, string | undefined> | null {
  return pattern.exec(text)?.groups ?? null;
}

/** A text as an expression that matches nothing else. */
export function literally(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** "a, b and c". */
export function listed(items: readonly string[]): string {
  return [items.slice(0, -1).join(", "), items.at(-1)].filter(Boolean).join(" and ");
}

/** "1 step", "3 steps". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function unique<T>(items: Iterable<T>): T[] {
  return [...new Set(items)];
}
