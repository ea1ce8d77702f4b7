import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { Component, type ReactNode, Suspense } from 'react';
import { Link, Redirect, Route, Switch, useLocation, useSearch } from 'wouter';
import { Button, Empty, FaultNote, Loading, Page } from '../../ui/index.tsx';
import { Home } from '../views/home/index.tsx';
import { HostBanner } from './host-banner.tsx';
import { Navigation } from './navigation.tsx';
import css from './shell.module.css';
import { SignInDialog } from './sign-in-dialog.tsx';
import { views } from './views.ts';

/** Routes `/console` and below. */
export function App() {
  const [location] = useLocation();
  const search = useSearch();
  const queries = useQueryClient();
  const view = location.split('/').slice(0, 3).join('/');
  return (
    <div className={css['shell']}>
      <a className={css['skip']} href="#main" onClick={focusMain}>
        Skip to content
      </a>
      <Navigation />
      <main id="main" className={css['main']} tabIndex={-1}>
        <HostBanner />
        {/* The key resets the error state when the view changes. */}
        <ErrorBoundary
          key={view}
          view={view}
          address={search === '' ? location : `${location}?${search}`}
          resetQueries={() => void resetQueries(queries)}
        >
          <Suspense fallback={<Loading what="the view" />}>
            <Switch>
              {views.map(({ path, component: View }) => (
                <Route key={path} path={`/console/${path}/*?`}>
                  <View />
                </Route>
              ))}
              <Route path="/console" component={Home} />
              <Route path="/">
                <Redirect to="/console" replace />
              </Route>
              <Route>
                <Page title="Not found">
                  <Empty title={`There is no view ${location}.`}>
                    <Link href="/console">Go to the home page</Link>
                  </Empty>
                </Page>
              </Route>
            </Switch>
          </Suspense>
        </ErrorBoundary>
      </main>
      <SignInDialog />
    </div>
  );
}

/** Drops the cached responses of the failed view and refreshes the others. */
function resetQueries(queries: QueryClient): Promise<void> {
  queries.removeQueries({ type: 'inactive' });
  return queries.invalidateQueries();
}

/** Moves the focus by script: with the page's `<base>`, `#main` would navigate to another page. */
function focusMain(event: { preventDefault: () => void }): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

interface ErrorBoundaryProps {
  readonly children: ReactNode;
  /** Path and search; navigation resets the error state. */
  readonly address: string;
  /** Path of the view without subpath and search. */
  readonly view: string;
  /** Drops cached responses, so that a retry does not fail on the same data. */
  readonly resetQueries: () => void;
}

/** Error boundary: shows a view's error in its place; the rest of the page keeps working. */
class ErrorBoundary extends Component<ErrorBoundaryProps, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidUpdate(before: ErrorBoundaryProps) {
    if (before.address !== this.props.address && this.state.error !== undefined) this.#retry();
  }

  readonly #retry = () => {
    this.props.resetQueries();
    this.setState({ error: undefined });
  };

  override render() {
    const { error } = this.state;
    const { children, address, view } = this.props;
    if (error === undefined) return children;
    return (
      <Page title="Something went wrong">
        <FaultNote error={error} retry={this.#retry} />
        <p>
          The host may have sent a response that this page does not expect, for example while it starts or
          after an upgrade. <Button onClick={() => location.reload()}>Reload the page</Button>
        </p>
        {address !== view && (
          <p>
            The address of this page may be wrong. <Link href={view}>Go to the first page of this view</Link>.
          </p>
        )}
      </Page>
    );
  }
}
