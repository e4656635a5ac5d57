/** Light or dark: as the system has it, or as was chosen here before. */

const NAME = "hyperslab-theme";
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

/** @returns {"light"|"dark"} */
export function presentTheme() {
  return document.documentElement.dataset.theme ?? (prefersDark.matches ? "dark" : "light");
}

/**
 * Have a button switch between light and dark. Those who draw hear of it by the event `themechange` of the window.
 * @param {HTMLButtonElement} button
 */
export function startTheme(button) {
  const kept = read();
  if (kept) document.documentElement.dataset.theme = kept;
  const label = () => {
    const other = presentTheme() === "dark" ? "Light" : "Dark";
    button.textContent = other;
    button.setAttribute("aria-label", `${other} colours`);
    window.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    const theme = presentTheme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    keep(theme);
    label();
  });
  prefersDark.addEventListener("change", label);
  label();
}

function read() {
  try {
    const theme = localStorage.getItem(NAME);
    return theme === "light" || theme === "dark" ? theme : null;
  } catch {
    return null; // where pages may keep nothing
  }
}

/** @param {string} theme */
function keep(theme) {
  try {
    localStorage.setItem(NAME, theme);
  } catch {
    // it is chosen anew the next time
  }
}
