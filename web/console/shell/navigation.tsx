import { useEffect, useState, useSyncExternalStore } from 'react';
import { Link, useLocation } from 'wouter';
import { session } from '../../api/session.ts';
import { useWaiting } from '../agents/waiting.ts';
import { GatewayLink } from './gateway-link.tsx';
import { PaletteButton } from './palette-button.tsx';
import css from './shell.module.css';
import { saveTheme, type Theme, savedTheme } from '../../ui/theme.ts';
import { views } from './views.ts';

const viewGroups = ['Model', 'Agents', 'Host'] as const;

/** Side navigation; on narrow screens it is a collapsed menu above the view. */
export function Navigation() {
  const [location] = useLocation();
  const [isOpen, setOpen] = useState(false);
  const [theme, setTheme] = useState(savedTheme);
  useEffect(() => setOpen(false), [location]);
  useEffect(() => {
    const closeOnEscape = ({ key }: KeyboardEvent) => key === 'Escape' && setOpen(false);
    document.addEventListener('keydown', closeOnEscape);
    return () => document.removeEventListener('keydown', closeOnEscape);
  }, []);
  const isSignedIn = useSyncExternalStore(session.subscribe, () => session.isSignedIn);
  const [isSignOutFailed, setSignOutFailed] = useState(false);
  const waiting = useWaiting().data;
  const counts: Readonly<Record<string, number | undefined>> = {
    pending: waiting?.pending,
    runs: waiting?.runs,
  };
  const isCurrent = (path: string) => location === path || location.startsWith(`${path}/`);
  return (
    <header className={css['side']}>
      <div className={css['brand']}>
        <Link href="/console" className={css['name']} aria-label="lathe, home">
          <img src="/icon.svg" alt="" width="26" height="26" /> lathe
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
        <PaletteButton />
        {viewGroups.map((group) => (
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
                      {...(isCurrent(`/console/${path}`) ? { 'aria-current': 'page' as const } : {})}
                    >
                      {title}
                      <WaitingCount count={counts[path]} />
                    </Link>
                  </li>
                ))}
            </ul>
          </div>
        ))}
        <div className={css['foot']}>
          <GatewayLink />
          <a href="/docs">API reference</a>
          <a href="/demo/">Browser demo</a>
          {isSignedIn && (
            <button
              type="button"
              className={css['signOut']}
              onClick={() =>
                void session.signOut().then(
                  () => window.location.reload(),
                  () => setSignOutFailed(true),
                )
              }
            >
              Sign out
            </button>
          )}
          {isSignOutFailed && <p role="alert">The host does not answer. You are still signed in.</p>}
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
        </div>
      </nav>
    </header>
  );
}

/** How many things of a view wait for a person; nothing where none does. */
const WaitingCount = ({ count = 0 }: { count?: number | undefined }) =>
  count > 0 && (
    <span className={css['count']}>
      {count}
      <span className={css['hidden']}> waiting</span>
    </span>
  );
