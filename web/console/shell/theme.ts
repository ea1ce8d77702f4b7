export type Theme = 'system' | 'light' | 'dark';

const key = 'lathe-theme';
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

export function themeNow(): Theme {
  const kept = localStorage.getItem(key);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

/** Sets it now, and follows the system's while nothing else was chosen. */
export function applyTheme(theme: Theme = themeNow()): void {
  const isDark = theme === 'dark' || (theme === 'system' && prefersDark.matches);
  document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(key, theme);
  applyTheme(theme);
}

prefersDark.addEventListener('change', () => applyTheme());
