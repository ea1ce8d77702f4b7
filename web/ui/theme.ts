export type Theme = 'system' | 'light' | 'dark';

const storageKey = 'lathe-theme';
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

export function savedTheme(): Theme {
  const saved = readStoredTheme();
  return saved === 'light' || saved === 'dark' ? saved : 'system';
}

/** Applies a theme. With `system`, the page follows the preference of the operating system. */
export function applyTheme(theme: Theme = savedTheme()): void {
  const isDark = theme === 'dark' || (theme === 'system' && prefersDark.matches);
  document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
}

export function saveTheme(theme: Theme): void {
  try {
    localStorage.setItem(storageKey, theme);
  } catch {
    // Storage is blocked: the choice lasts until the page is closed.
  }
  applyTheme(theme);
}

/** The stored theme; null when none is stored or storage is blocked. */
function readStoredTheme(): string | null {
  try {
    return localStorage.getItem(storageKey);
  } catch {
    return null;
  }
}

prefersDark.addEventListener('change', () => applyTheme());
