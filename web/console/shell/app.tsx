import { Component, type ReactNode, Suspense } from 'react';
import { Link, Redirect, Route, Switch, useLocation } from 'wouter';
import { Button, Empty, FaultNote, Loading, Page } from '../parts/index.tsx';
import { Home } from '../views/home/index.tsx';
import { Navigation } from './navigation.tsx';
import css from './shell.module.css';
import { SignIn } from './sign-in.tsx';
import { views } from './views.ts';

/** `/console` and what is below it. */
export function App() {
  const [location] = useLocation();
  return (
    <div className={css['shell']}>
      <a className={css['skip']} href="#main" onClick={toMain}>
        Skip to the content
      </a>
      <Navigation />
      <main id="main" className={css['main']} tabIndex={-1}>
        {/* A view that broke is left behind by going to another one. */}
        <Guard key={location.split('/').slice(0, 3).join('/')}>
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

/** The base of the page's URLs would make `#main` another page. */
function toMain(event: { preventDefault: () => void }): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

/** A fault of a view is shown in its place; the rest of the page goes on. */
class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return (
      <Page title="This view broke">
        <FaultNote error={error} />
        <p>
          <Button onClick={() => location.reload()}>Load it again</Button>
        </p>
      </Page>
    );
  }
}
