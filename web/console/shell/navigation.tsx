import { useEffect, useState } from 'react';
import { Link, useLocation } from 'wouter';
import css from './shell.module.css';
import { chooseTheme, type Theme, themeNow } from './theme.ts';
import { views } from './views.ts';

const groups = ['Model', 'Agents', 'Host'] as const;

/** Side navigation; on narrow screens it is a collapsed menu above the view. */
export function Navigation() {
  const [location] = useLocation();
  const [open, setOpen] = useState(false);
  const [theme, setTheme] = useState(themeNow);
  useEffect(() => setOpen(false), [location]);
  useEffect(() => {
    const fold = ({ key }: KeyboardEvent) => key === 'Escape' && setOpen(false);
    document.addEventListener('keydown', fold);
    return () => document.removeEventListener('keydown', fold);
  }, []);
  const current = (path: string) => location === path || location.startsWith(`${path}/`);
  return (
    <header className={css['side']}>
      <div className={css['brand']}>
        <Link href="/console" className={css['name']} aria-label="lathe, home">
          <img src="/icon.svg" alt="" width="26" height="26" /> lathe
        </Link>
        <button
          type="button"
          className={css['menu']}
          aria-expanded={open}
          aria-controls="navigation"
          onClick={() => setOpen(!open)}
        >
          Menu
        </button>
      </div>
      <nav id="navigation" className={css['nav']} data-open={open} aria-label="Views">
        {groups.map((group) => (
          <div key={group}>
            <h2 className={css['group']}>{group}</h2>
            <ul>
              {views
                .filter((view) => view.group === group)
                .map(({ path, title }) => (
                  <li key={path}>
                    <Link
                      href={`/console/${path}`}
                      className={css['link']}
                      {...(current(`/console/${path}`) ? { 'aria-current': 'page' as const } : {})}
                    >
                      {title}
                    </Link>
                  </li>
                ))}
            </ul>
          </div>
        ))}
        <div className={css['foot']}>
          <a href="/docs">API reference</a>
          <a href="/demo/">Browser demo</a>
          <label>
            Theme{' '}
            <select
              value={theme}
              onChange={({ target }) => {
                const next = target.value as Theme;
                setTheme(next);
                chooseTheme(next);
              }}
            >
              <option value="system">System</option>
              <option value="light">Light</option>
              <option value="dark">Dark</option>
            </select>
          </label>
        </div>
      </nav>
    </header>
  );
}
