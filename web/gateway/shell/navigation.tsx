import { useEffect, useState } from 'react';
import { Link, useLocation } from 'wouter';
import css from '../../console/shell/shell.module.css';
import { saveTheme, type Theme, savedTheme } from '../../ui/theme.ts';
import { Button } from '../../ui/index.tsx';
import { signOut } from '../api.ts';
import { views } from './views.ts';

const groups = ['Spend', 'Routing', 'Records'] as const;

/** Side navigation; on narrow screens it is a collapsed menu above the view. */
export function Navigation({ by, onSignOut }: { by: string; onSignOut: () => void }) {
  const [location] = useLocation();
  const [isOpen, setOpen] = useState(false);
  const [theme, setTheme] = useState(savedTheme);
  useEffect(() => setOpen(false), [location]);
  const current = (path: string) =>
    location === path || location.startsWith(`${path}/`) ? { 'aria-current': 'page' as const } : {};
  return (
    <header className={css['side']}>
      <div className={css['brand']}>
        <Link href="/" className={css['name']} aria-label="lathe gateway, overview">
          <img src="/icon.svg" alt="" width="26" height="26" /> Gateway
        </Link>
        <button
          type="button"
          className={css['menu']}
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={() => setOpen(!isOpen)}
        >
          Menu
        </button>
      </div>
      <nav id="navigation" className={css['nav']} data-open={isOpen} aria-label="Views">
        <ul>
          <li>
            <Link
              href="/"
              className={css['link']}
              {...(location === '/' ? { 'aria-current': 'page' as const } : {})}
            >
              Overview
            </Link>
          </li>
        </ul>
        {groups.map((group) => (
          <div key={group}>
            <h2 className={css['group']}>{group}</h2>
            <ul>
              {views
                .filter((view) => view.group === group)
                .map(({ path, title }) => (
                  <li key={path}>
                    <Link href={`/${path}`} className={css['link']} {...current(`/${path}`)}>
                      {title}
                    </Link>
                  </li>
                ))}
            </ul>
          </div>
        ))}
        <div className={css['foot']}>
          <a href="/openapi.json">OpenAPI document</a>
          <label>
            Theme{' '}
            <select
              value={theme}
              onChange={({ target }) => {
                const next = target.value as Theme;
                setTheme(next);
                saveTheme(next);
              }}
            >
              <option value="system">System</option>
              <option value="light">Light</option>
              <option value="dark">Dark</option>
            </select>
          </label>
          <span>Signed in as {by.replace(/^admin:/, '')}</span>
          <Button
            onClick={() => {
              // Without an answer the banner says so, and the session stays.
              void signOut().then(onSignOut, () => undefined);
            }}
          >
            Sign out
          </Button>
        </div>
      </nav>
    </header>
  );
}
