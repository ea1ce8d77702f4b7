import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { Component, type ReactNode, Suspense } from 'react';
import { Link, Redirect, Route, Switch, useLocation, useSearch } from 'wouter';
import { Button, Empty, FaultNote, Loading, Page } from '../parts/index.tsx';
import { Home } from '../views/home/index.tsx';
import { Navigation } from './navigation.tsx';
import css from './shell.module.css';
import { SignIn } from './sign-in.tsx';
import { views } from './views.ts';

/** `/console` and what is below it. */
export function App() {
  const [location] = useLocation();
  const search = useSearch();
  const queries = useQueryClient();
  const view = location.split('/').slice(0, 3).join('/');
  return (
    <div className={css['shell']}>
      <a className={css['skip']} href="#main" onClick={toMain}>
        Skip to the content
      </a>
      <Navigation />
      <main id="main" className={css['main']} tabIndex={-1}>
        {/* A view that broke is left behind by going to another one. */}
        <Guard
          key={view}
          view={view}
          address={search === '' ? location : `${location}?${search}`}
          forget={() => void forget(queries)}
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
                    <Link href="/console">Go to the start</Link>
                  </Empty>
                </Page>
              </Route>
            </Switch>
          </Suspense>
        </Guard>
      </main>
      <SignIn />
    </div>
  );
}

/** What the view was told goes; what the rest of the page shows is asked for again. */
function forget(queries: QueryClient): Promise<void> {
  queries.removeQueries({ type: 'inactive' });
  return queries.invalidateQueries();
}

/** The base of the page's URLs would make `#main` another page. */
function toMain(event: { preventDefault: () => void }): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

interface GuardProps {
  readonly children: ReactNode;
  /** The whole address: whoever goes elsewhere is shown what is there. */
  readonly address: string;
  /** Of the view, without what its address says beyond it. */
  readonly view: string;
  /** Drops what the host answered the view before. */
  readonly forget: () => void;
}

/** A fault of a view is shown in its place; the rest of the page goes on. */
class Guard extends Component<GuardProps, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidUpdate(before: GuardProps) {
    if (before.address !== this.props.address && this.state.error !== undefined) this.#tryAgain();
  }

  readonly #tryAgain = () => {
    this.props.forget();
    this.setState({ error: undefined });
  };

  override render() {
    const { error } = this.state;
    const { children, address, view } = this.props;
    if (error === undefined) return children;
    return (
      <Page title="This view broke">
        <FaultNote error={error} retry={this.#tryAgain} />
        <p>
          The host may have answered something else than this page expects, as while it starts or after it was
          renewed. <Button onClick={() => location.reload()}>Load the page again</Button>
        </p>
        {address !== view && (
          <p>
            Or the address of this page asks for what is not there:{' '}
            <Link href={view}>open the view from its start</Link>.
          </p>
        )}
      </Page>
    );
  }
}
