// Light, dark, or as the system has it; remembered.

const KEY = "corral.theme";
const ORDER = ["system", "light", "dark"];

export function theme() {
  try {
    const kept = localStorage.getItem(KEY);
    return ORDER.includes(kept) ? kept : "system";
  } catch {
    return "system";
  }
}

export const nextTheme = () => ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];

export function applyTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // it holds until the page is left
  }
}
