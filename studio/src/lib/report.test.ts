import { describe, expect, test } from "vitest";
import { parseMessage, inAddress } from "./report";
import { links, routeOf } from "./route";

const ORIGIN = "http://127.0.0.1:8030";
const ADDRESS = "/v1/studio/reports/bench.1.ab/";
const PIXEL = "data:image/png;base64,iVBORw0KGgo=";
const say = (words: Record<string, unknown>) => parseMessage({ interleave: "report", ...words }, ADDRESS, ORIGIN);

describe("messages of a report", () => {
  test("an image of the page or its folder is shown", () => {
    expect(say({ image: PIXEL, alt: "a", number: 2, of: 3 })).toEqual({
      kind: "image",
      image: { source: PIXEL, alt: "a", number: 2, of: 3 },
    });
    const stored = say({ image: `${ORIGIN}${ADDRESS}a/b.png`, alt: 7, number: -1, of: 1.5 });
    expect(stored).toEqual({ kind: "image", image: { source: `${ADDRESS}a/b.png`, alt: "", number: 0, of: 0 } });
  });

  test.each([
    "https://example.com/v1/studio/reports/bench.1.ab/a.png",
    `${ORIGIN}/v1/documents/x/pictures/y.png`,
    `${ORIGIN}${ADDRESS}../../../documents`,
    "data:image/svg+xml;base64,AAAA",
    "data:text/html,<p>",
    "javascript:alert(1)",
    "a.png",
  ])("not %s", (image) => expect(say({ image })).toBeNull());

  test("the shown page is reported by its path in the folder", () => {
    expect(say({ at: `${ADDRESS}a%20b/report.html`, hash: "#x" })).toEqual({ kind: "at", path: "a b/report.html", hash: "#x" });
    expect(say({ at: "/v1/documents/x" })).toBeNull();
    expect(say({ at: `${ADDRESS}%E0%A4%A` })).toBeNull();
  });

  test.each([null, "report", 7, {}, { interleave: "other", image: PIXEL }])("%j is not a message", (data) => {
    expect(parseMessage(data, ADDRESS, ORIGIN)).toBeNull();
  });
});

test("a report has its own link", () => {
  const link = links.report("bench", "a b/ä#?.html");
  expect(routeOf(link)).toEqual({ view: "report", folder: "bench", path: "a b/ä#?.html" });
  expect(routeOf("#/reports")).toEqual({ view: "reports" });
  expect(routeOf("#/reports/bench")).toEqual({ view: "reports" });
  expect(routeOf("#/reports/bench/%E0%A4%A")).toEqual({ view: "report", folder: "bench", path: "%E0%A4%A" });
  expect(inAddress("a b/ä#?.html")).toBe("a%20b/%C3%A4%23%3F.html");
});
