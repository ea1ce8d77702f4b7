import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';
import { Link, Route, Switch, useLocation } from 'wouter';
import css from '../../console/shell/shell.module.css';
import { Empty, Loading, Page, ServerDownContext } from '../../ui/index.tsx';
import { readSession } from '../api.ts';
import { session } from '../session.ts';
import { Overview } from '../views/overview/index.tsx';
import { ErrorBoundary } from './error-boundary.tsx';
import { Navigation } from './navigation.tsx';
import { OfflineBanner } from './offline-banner.tsx';
import { SignIn } from './sign-in.tsx';
import { views } from './views.ts';

/** The page of a gateway's operator. */
export function App() {
  const { by, isExpired, isOffline } = useSyncExternalStore(session.subscribe, () => session.current);
  const [location] = useLocation();
  const queries = useQueryClient();
  useEffect(() => void readSession(), []);
  if (by === undefined)
    return (
      <>
        {isOffline && <OfflineBanner />}
        <Loading what="the page" />
      </>
    );
  if (by === null) return <SignIn isExpired={isExpired} />;
  return (
    <ServerDownContext value={isOffline}>
      {isOffline && <OfflineBanner />}
      <div className={css['shell']}>
        <a
          className={css['skip']}
          href="#main"
          onClick={(event) => {
            event.preventDefault();
            document.getElementById('main')?.focus();
          }}
        >
          Skip to content
        </a>
        <Navigation by={by} onSignOut={() => queries.clear()} />
        <main id="main" className={css['main']} tabIndex={-1}>
          <ErrorBoundary key={location}>
            <Switch>
              <Route path="/" component={Overview} />
              {views.map(({ path, component: View }) => (
                <Route key={path} path={`/${path}/*?`}>
                  <View />
                </Route>
              ))}
              <Route>
                <Page title="Not found">
                  <Empty title={`There is no view ${location}.`}>
                    <Link href="/">Go to the overview</Link>
                  </Empty>
                </Page>
              </Route>
            </Switch>
          </ErrorBoundary>
        </main>
      </div>
    </ServerDownContext>
  );
}
