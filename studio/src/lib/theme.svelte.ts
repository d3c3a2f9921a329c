/** Light or dark: the system's choice unless the user chooses. */

const KEY = "interleave-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = $state<string | null>(localStorage.getItem(KEY));
let systemDark = $state(system.matches);

export const theme = {
  get dark(): boolean {
    return chosen ? chosen === "dark" : systemDark;
  },
  toggle(): void {
    chosen = theme.dark ? "light" : "dark";
    localStorage.setItem(KEY, chosen);
    applyTheme();
  },
};

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme.dark ? "dark" : "light";
}

system.addEventListener("change", () => {
  systemDark = system.matches;
  applyTheme();
});
