export type Theme = 'system' | 'light' | 'dark';

const key = 'lathe-theme';
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

export function themeNow(): Theme {
  const kept = stored();
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

/** Sets it now, and follows the system's while nothing else was chosen. */
export function applyTheme(theme: Theme = themeNow()): void {
  const isDark = theme === 'dark' || (theme === 'system' && prefersDark.matches);
  document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
}

export function chooseTheme(theme: Theme): void {
  try {
    localStorage.setItem(key, theme);
  } catch {
    // It holds until the page is closed, then.
  }
  applyTheme(theme);
}

/** Browsers may be told to keep nothing. */
function stored(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

prefersDark.addEventListener('change', () => applyTheme());
