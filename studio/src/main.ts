import "./app.css";
import { flushSync, mount } from "svelte";
import App from "./App.svelte";
import { draft } from "./lib/draft.svelte";
import { applyTheme } from "./lib/theme.svelte";

applyTheme();
const target = document.getElementById("studio");
const early = document.querySelector<HTMLTextAreaElement>("#early textarea");
if (target) {
  const typed = early?.value ?? "";
  const at = document.activeElement === early ? (early?.selectionStart ?? typed.length) : null;
  if (typed.trim()) draft.set(typed);
  target.replaceChildren();
  flushSync(() => mount(App, { target }));
  const field = at === null ? null : target.querySelector("textarea");
  field?.focus();
  field?.setSelectionRange(at, at);
}
