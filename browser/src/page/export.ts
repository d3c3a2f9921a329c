/** The document as one HTML file, with its images in it. A PDF is made by the browser's own print dialog. */

import { textOf } from "../loop/types";
import { stateOf } from "./document";
import { imageOf, notesOf, type Record, type ShownAttempt, type ShownStep } from "./record";

const STYLE = `
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1.25rem; font: 1.0625rem/1.6 Charter, Georgia, serif; }
h1, h2 { line-height: 1.25; } h2 { margin: 2.5rem 0 .3rem; font-size: 1.25rem; }
img { display: block; width: 100%; max-width: 32rem; border-radius: .5rem; }
details, footer, .note { margin-top: .6rem; font: .875rem/1.5 system-ui, sans-serif; opacity: .85; }
details img { max-width: 9rem; }
@media print { section { break-inside: avoid; } img { max-width: 9cm; } details { display: none; } }`;

export function asHtml(record: Record): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="InterleaveThinker, in a browser tab">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>${escaped(record.request)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escaped(record.request)}</h1>
${notesOf(record).map((note) => `<p class="note">${escaped(note)}</p>`).join("\n")}
${record.steps.map(stepHtml).join("\n")}
<footer>Made in a browser tab by the miniature of InterleaveThinker: small models that know a small world and can be wrong. Seed ${record.seed}.</footer>
</body>
</html>
`;
}

function stepHtml(step: ShownStep): string {
  const shown = imageOf(step);
  const image = shown ? `<img src="${shown.image}" alt="${escaped(textOf(step.plan))}" width="512" height="512">` : "";
  const attempts = step.attempts.length
    ? `<details><summary>${escaped(stateOf(step))}</summary>${step.attempts.map(attemptHtml).join("")}</details>`
    : "";
  const title = [String(step.plan.number), step.plan.name].filter(Boolean).join(". ");
  return `<section><h2>${escaped(title)}</h2>${image}<p>${escaped(textOf(step.plan))}</p>${attempts}</section>`;
}

function attemptHtml({ number, prompt, image, verdict }: ShownAttempt): string {
  const said = [
    `Attempt ${number}: ${prompt}`,
    verdict ? `${verdict.outcome}. ${verdict.reasoning}` : "",
    verdict?.refined_prompt ? `Refined prompt: ${verdict.refined_prompt}` : "",
  ];
  return `<p><img src="${image}" alt="">${said.filter(Boolean).map(escaped).join("<br>")}</p>`;
}

function escaped(text: string): string {
  const entities: { [character: string]: string } = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (character) => entities[character]!);
}

/** Save a text as a file of this name. */
export function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/html" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
