import { Link, Route, Switch, useLocation } from 'wouter';
import { ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Empty, Loading, Page, Panel, Tabs } from '../../../ui/index.tsx';
import { useSurfaces } from './queries.ts';
import css from './observe.module.css';
import { QueryView } from './query-view.tsx';
import { QuestionView } from './question-view.tsx';
import { SurfaceList, SurfaceView } from './surface-view.tsx';
import type { Question } from './types.ts';

const tabs = [
  { name: 'query', title: 'Query', path: '/console/observe' },
  { name: 'questions', title: 'Questions', path: '/console/observe/questions' },
  { name: 'surfaces', title: 'Surfaces', path: '/console/observe/surfaces' },
] as const;

/** Read-only queries over the recorded activity of the host. */
export default function Observe() {
  const [location, navigate] = useLocation();
  const surfacesQuery = useSurfaces();
  const chosen = tabs.findLast(({ path }) => location.startsWith(path))?.name ?? 'query';
  return (
    <Page
      title="Observe"
      lead="Query the recorded activity of the host. Queries are read-only, and no data leaves the host."
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
              <Route>
                <QueryView surfaces={surfacesQuery.data.surfaces} />
              </Route>
            </Switch>
          </div>
        </Tabs>
      )}
    </Page>
  );
}

function QuestionPage({ name, questions }: { name: string; questions: readonly Question[] }) {
  const question = questions.find((one) => one.name === name);
  return (
    <>
      <p>
        <Link href="/console/observe/questions">All questions</Link>
      </p>
      {question ? <QuestionView question={question} /> : <Empty title={`There is no question ${name}.`} />}
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
