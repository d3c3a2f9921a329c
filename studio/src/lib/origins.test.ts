import { expect, it } from "vitest";
import { originOf } from "./origins";
import type { ImageOrigin } from "./types";

const first: ImageOrigin = { number: 1, edited: false, model: "flux", program: false, received: null, sources: [] };

it("says what made an image, from which, and who signed what was received", () => {
  expect(originOf(first)).toEqual(["Made with AI by flux."]);
  expect(originOf({ ...first, model: "solid", program: true })[0]).toContain("not a trained model");
  const sources = [{ step: 1, given: false, received: null }, { step: null, given: false, received: null }];
  expect(originOf({ ...first, edited: true, sources })).toEqual([
    "Edited with AI from image 1 by flux.",
    "Drawn with an image that is not shown as reference.",
  ]);
  const signed = { state: "intact" as const, signer: "A Provider", software: "Paint 2", source_types: ["trainedAlgorithmicMedia"] };
  expect(originOf({ ...first, received: signed })[1]).toBe(
    "It was received as a file signed by A Provider (made with AI, Paint 2), unchanged since.",
  );
  const given = { step: null, given: true, received: { ...signed, state: "altered" as const } };
  expect(originOf({ ...first, edited: true, sources: [given] })).toEqual([
    "Edited with AI from an image of the request by flux.",
    "The image of the request was given as a signed file that was altered or damaged.",
  ]);
});
