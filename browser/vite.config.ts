import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "./", // any folder of any host
  build: {
    target: "es2022",
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
      input: { index: "index.html", sw: "src/sw.ts" },
      output: { entryFileNames: (chunk) => (chunk.name === "sw" ? "sw.js" : "assets/[name]-[hash].js") },
    },
  },
  worker: { format: "es" },
  test: { include: ["src/**/*.test.ts"], environment: "node", testTimeout: 600_000 },
});
