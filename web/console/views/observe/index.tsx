import { Link, Redirect, Route, Switch, useLocation, useSearch } from 'wouter';
import { ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Empty, Loading, Page, Panel, Tabs } from '../../../ui/index.tsx';
import { useSurfaces } from './queries.ts';
import css from './observe.module.css';
import { QueryView } from './query-view.tsx';
import { Overview } from './overview/index.tsx';
import { QuestionView } from './question-view.tsx';
import { SurfaceList, SurfaceView } from './surface-view.tsx';
import { GatewayTrace } from './trace/gateway-trace.tsx';
import { RequestTrace } from './trace/request-trace.tsx';
import { WorkTrace } from './trace/work-trace.tsx';
import type { Question } from './types.ts';

const tabs = [
  { name: 'overview', title: 'Overview', path: '/console/observe' },
  { name: 'explore', title: 'Explore', path: '/console/observe/explore' },
  { name: 'questions', title: 'Questions', path: '/console/observe/questions' },
  { name: 'surfaces', title: 'Surfaces', path: '/console/observe/surfaces' },
] as const;

/** Read-only queries over the recorded activity of the host. */
export default function Observe() {
  const [location, navigate] = useLocation();
  const search = useSearch();
  const surfacesQuery = useSurfaces();
  const chosen = tabs.findLast(({ path }) => location.startsWith(path))?.name ?? 'overview';
  return (
    <Page
      title="Observe"
      lead="The recorded activity of the host: requests, their times and errors, and queries over all of it. No data leaves the host."
    >
      {surfacesQuery.isPending && <Loading what="the surfaces" />}
      {surfacesQuery.isError && (
        <Panel>
          <ProtectedRouteFault
            what="the recorded activity"
            error={surfacesQuery.error}
            retry={() => void surfacesQuery.refetch()}
          />
        </Panel>
      )}
      {surfacesQuery.data && (
        <Tabs
          label="Observe"
          tabs={tabs}
          selected={chosen}
          onSelect={(name) => navigate(tabs.find((tab) => tab.name === name)?.path ?? '')}
        >
          <div className={css['tab']}>
            <Switch>
              <Route path="/console/observe/questions/:name">
                {({ name }) => (
                  <QuestionPage key={name} name={name} questions={surfacesQuery.data.questions} />
                )}
              </Route>
              <Route path="/console/observe/questions">
                <QuestionList questions={surfacesQuery.data.questions} />
              </Route>
              <Route path="/console/observe/surfaces/:name">
                {({ name }) => <SurfaceView name={name} />}
              </Route>
              <Route path="/console/observe/surfaces">
                <SurfaceList surfaces={surfacesQuery.data.surfaces} />
              </Route>
              <Route path="/console/observe/explore">
                <QueryView surfaces={surfacesQuery.data.surfaces} />
              </Route>
              <Route path="/console/observe/requests/:id">
                {({ id }) => <RequestTrace id={decodeURIComponent(id)} />}
              </Route>
              <Route path="/console/observe/traces/:id">
                {({ id }) => <WorkTrace id={decodeURIComponent(id)} />}
              </Route>
              <Route path="/console/observe/gateway/:id">
                {({ id }) => <GatewayTrace id={decodeURIComponent(id)} />}
              </Route>
              <Route>
                {isQueryLink(search) ? (
                  <Redirect to={`/console/observe/explore?${search}`} replace />
                ) : (
                  <Overview />
                )}
              </Route>
            </Switch>
          </div>
        </Tabs>
      )}
    </Page>
  );
}

/** Whether the address is a link to a query, as it was before the overview. */
const isQueryLink = (search: string): boolean => {
  const parameters = new URLSearchParams(search);
  return parameters.has('q') || parameters.has('surface');
};

function QuestionPage({ name, questions }: { name: string; questions: readonly Question[] }) {
  const question = questions.find((one) => one.name === name);
  return (
    <>
      <p>
        <Link href="/console/observe/questions">All questions</Link>
      </p>
      {question ? (
        <QuestionView question={question} />
      ) : (
        <Empty title={`There is no question ${name}.`}>
          <Link href="/console/observe/questions">All questions</Link>
        </Empty>
      )}
    </>
  );
}

const QuestionList = ({ questions }: { questions: readonly Question[] }) => (
  <Panel title="Predefined questions">
    <ul className={css['questions']}>
      {questions.map(({ name, description }) => (
        <li key={name}>
          <Link href={`/console/observe/questions/${name}`}>{name.replaceAll('_', ' ')}</Link>
          <span>{description}</span>
        </li>
      ))}
    </ul>
  </Panel>
);
