/** Where an image comes from, in plain words. */
import { text } from "./text";
import type { ImageOrigin } from "./types";

type Received = NonNullable<ImageOrigin["received"]>;
type Source = ImageOrigin["sources"][number];

function received(what: string, { state, signer, software, source_types }: Received): string {
  const words = text.origins;
  if (state === "unread") return words.unread(what);
  if (state !== "intact") return words.altered(what);
  const kinds = (source_types ?? []).map((each) => words.kinds[each] ?? each);
  return words.received(what, signer ?? "", [...kinds, ...(software ? [software] : [])].join(", "));
}

const named = (each: Source): string =>
  each.given ? text.origins.given : each.step === null ? text.origins.hidden : text.origins.image(each.step);

/** The sentences about one image. */
export function originOf(image: ImageOrigin): string[] {
  const words = text.origins;
  const [first, ...rest] = image.sources;
  const parent = image.edited ? first : undefined;
  const references = image.edited ? rest : image.sources;
  const told = !image.model ? words.kept
    : parent ? words.edited(named(parent), image.model, image.program)
    : words.made(image.model, image.program);
  return [
    told,
    ...(references.length ? [words.references(references.map(named))] : []),
    ...(image.received ? [received(words.own, image.received)] : []),
    ...image.sources.flatMap((each) => (each.received ? [received(words.source, each.received)] : [])),
  ];
}
