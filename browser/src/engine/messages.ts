/** Messages as tokens: the chat template, which the build has written out as the text around each part. */

import type { BytePairEncoding } from "./bpe";

export interface Pixels {
  width: number;
  height: number;
  /** Red, green, blue of each pixel, row by row. */
  rgb: Uint8Array;
}
export type Part = string | Pixels;
export interface Message {
  role: "user" | "assistant" | "system";
  parts: readonly Part[];
}
export interface Template {
  before: Record<Message["role"], string>;
  after: Record<Message["role"], string>;
  image: string;
  reply: string;
}

export const IMAGE_TOKEN = "<|image_pad|>";

export function encodeMessages(
  messages: readonly Message[],
  template: Template,
  encoding: BytePairEncoding,
  imageTokens: (image: Pixels) => number,
): number[] {
  const written = (part: Part) =>
    typeof part === "string"
      ? withoutSpecialTokens(part, encoding.special)
      : template.image.replace(IMAGE_TOKEN, IMAGE_TOKEN.repeat(imageTokens(part)));
  const texts = messages.map(
    ({ role, parts }) => template.before[role] + parts.map(written).join("") + template.after[role],
  );
  return encoding.encode(texts.join("") + template.reply);
}

/** A user's text in which special tokens of the model are broken by a space without width. */
function withoutSpecialTokens(text: string, special: readonly string[]): string {
  return special.reduce((so, token) => so.replaceAll(token, `${token[0]}\u200b${token.slice(1)}`), text);
}
