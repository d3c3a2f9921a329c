import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const SERVICE = process.env.STUDIO_SERVICE ?? "http://127.0.0.1:8020";

const TYPEFACE = /@font-face\{[^}]*\}/g;

/**
 * Puts the script and the style sheet into the page, so that the build is one file. The typeface comes last: the page
 * works while it is still being loaded.
 */
function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = bundle["index.html"];
      if (page?.type !== "asset") throw new Error("the build has no page");
      let html = String(page.source);
      let scripts = "";
      let typefaces = "";
      for (const [name, file] of Object.entries(bundle)) {
        if (file === page) continue;
        const text = file.type === "chunk" ? file.code : String(file.source);
        const tag = file.type === "chunk" ? /<script type="module"[^>]*><\/script>\s*/ : /<link rel="stylesheet"[^>]*>\s*/;
        if (!tag.test(html)) throw new Error(`the page does not name ${name}`);
        html = html.replace(tag, "");
        if (file.type === "chunk") scripts += `<script>${text.replaceAll("</script", "<\\/script").trimEnd()}</script>\n`;
        else {
          html = html.replace("</head>", () => `<style>${text.replace(TYPEFACE, "").trimEnd()}</style>\n</head>`);
          typefaces += (text.match(TYPEFACE) ?? []).join("");
        }
        delete bundle[name];
      }
      html = html.replace("</body>", () => `${scripts}<style>${typefaces}</style>\n</body>`);
      page.fileName = "studio.html";
      page.source = html;
    },
  };
}

export default defineConfig({
  // Short names of scopes: the page has more than a thousand of them.
  plugins: [svelte({ compilerOptions: { cssHash: ({ hash, css }) => `s${hash(css).slice(-3)}` } }), oneFile()],
  build: {
    outDir: "../src/interleave/studio/static",
    emptyOutDir: false,
    target: "es2022",
    assetsInlineLimit: 200_000,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    minify: "terser", // 5 kB smaller than esbuild's
    terserOptions: { ecma: 2020, compress: { passes: 3, unsafe_arrows: true } },
    rollupOptions: { output: { format: "iife" } }, // a classic script runs where it stands, not at the end of the page
  },
  server: { proxy: { "/v1": SERVICE, "/health": SERVICE } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
