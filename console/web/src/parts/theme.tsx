/** Dark, light, or what the system says. */

import { useState } from "preact/hooks";

const KEY = "strandline-theme";

export function applyTheme(): string {
  let theme = "";
  try {
    theme = localStorage.getItem(KEY) ?? "";
  } catch {
    // A file that is opened from a disk may have no storage: the system's theme stays.
  }
  set(theme);
  return theme;
}

function set(theme: string) {
  if (theme === "dark" || theme === "light") document.documentElement.dataset["theme"] = theme;
  else delete document.documentElement.dataset["theme"];
}

export function ThemeSwitch() {
  const [theme, setTheme] = useState(applyTheme);
  const isDark = theme === "" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
  const flip = () => {
    const next = isDark ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // As above.
    }
    set(next);
    setTheme(next);
  };
  const label = isDark ? "Light theme" : "Dark theme";
  return (
    <button class="plain icon" title={label} aria-label={label} onClick={flip}>
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6" />
        <path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor" />
      </svg>
    </button>
  );
}
