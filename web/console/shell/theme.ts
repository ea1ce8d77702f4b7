export type Theme = 'system' | 'light' | 'dark';

const key = 'lathe-theme';
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

export function themeNow(): Theme {
  const kept = stored();
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

/** Applies a theme. With `system`, the page follows the preference of the operating system. */
export function applyTheme(theme: Theme = themeNow()): void {
  const isDark = theme === 'dark' || (theme === 'system' && prefersDark.matches);
  document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
}

export function chooseTheme(theme: Theme): void {
  try {
    localStorage.setItem(key, theme);
  } catch {
    // Storage is blocked: the choice lasts until the page is closed.
  }
  applyTheme(theme);
}

/** The stored theme; null when none is stored or storage is blocked. */
function stored(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

prefersDark.addEventListener('change', () => applyTheme());
