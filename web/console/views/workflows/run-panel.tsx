import { useMutation, useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { Ago, agentsCss as css, placeOf, StateBadge } from '../../agents/parts.tsx';
import { DeclaredForm } from '../../agents/declared-form.tsx';
import { startRun } from '../../agents/start-run.ts';
import { api, held } from '../../api/client.ts';
import { asFault } from '../../api/fault.ts';
import { Empty, Field, Loading, Panel } from '../../parts/index.tsx';

/** Runs a workflow by its name, with what it asks for. */
export const RunPanel = (props: {
  name: string;
  source: string;
  enabled: boolean;
  /** What is written differs from what is stored, and what is stored is run. */
  isChanged?: boolean;
}) => (
  <>
    <Panel title="Run it">
      {props.enabled ? (
        <Suspense fallback={<Loading what="its inputs" />}>
          <RunForm {...props} />
        </Suspense>
      ) : (
        <Empty title="Its name is not enabled.">
          Who runs the host decides that: start it with <code>--enable-workflow {props.name}</code>.
        </Empty>
      )}
    </Panel>
    <RecentRuns name={props.name} />
  </>
);

/** The reader of TOML is fetched when it is needed. */
const RunForm = lazy(async () => {
  const { declaredIn } = await import('./declared-inputs.ts');
  return {
    default: function Form({ name, source, isChanged }: Parameters<typeof RunPanel>[0]) {
      const [input, setInput] = useState('');
      const [, go] = useLocation();
      const start = useMutation({
        mutationFn: (inputs: Record<string, unknown>) =>
          startRun(name, { inputs, ...(input === '' ? {} : { input }) }),
        onSuccess: (id) => go(placeOf.run(id)),
      });
      const declared = declaredIn(source);
      if (!declared) return <p className={css['quiet']}>Its text cannot be read; mend and save it first.</p>;
      const { inputs, entry, usesInput } = declared;
      const holder = inFlight(start.error);
      return (
        <>
          {isChanged === true && (
            <p className={css['quiet']}>What is stored is run; what you changed is not saved yet.</p>
          )}
          {entry === 'armed' && (
            <p className={css['quiet']}>It is armed: it then waits, and run-now in its run begins a cycle.</p>
          )}
          {entry === 'schedule' && (
            <p className={css['quiet']}>
              It then waits for its schedule, and each firing runs all steps once. Cancel the run to end that.
            </p>
          )}
          {usesInput && (
            <Field
              label="Input"
              hint={
                <>
                  A text; <code>{'{{input}}'}</code> stands for it.
                </>
              }
            >
              {(control) => (
                <textarea
                  {...control}
                  className={`${control.className} ${css['line']}`}
                  rows={1}
                  value={input}
                  onChange={({ target }) => setInput(target.value)}
                />
              )}
            </Field>
          )}
          {inputs.length === 0 && !usesInput && <p className={css['quiet']}>It asks for no inputs.</p>}
          <DeclaredForm
            fields={inputs}
            action={entry === undefined ? 'Run' : 'Start, and wait'}
            busy={start.isPending}
            error={start.error}
            send={(values) => start.mutate(values)}
          />
          {holder !== undefined && (
            <p>
              <Link href={placeOf.run(holder)}>Go to the run that is in flight</Link>
            </p>
          )}
        </>
      );
    },
  };
});

/** Of a refusal, because one runs at a time: that one. */
const inFlight = (error: unknown): string | undefined => {
  if (!error) return undefined;
  const { code, message } = asFault(error);
  return code === 'run_in_flight' ? /\br\d+\b/.exec(message)?.[0] : undefined;
};

const shown = 5;
function RecentRuns({ name }: { name: string }) {
  const runs = useQuery({
    queryKey: ['runs', 100],
    queryFn: () => held(api.GET('/agent/v1/workflows/runs', { params: { query: { limit: '100' } } })),
    refetchInterval: 2000,
  });
  const own = runs.data?.filter(({ workflow }) => workflow === name) ?? [];
  if (own.length === 0) return null;
  return (
    <Panel title="Its last runs" tools={<Link href={`/console/runs?workflow=${name}`}>All of them</Link>}>
      <ul className={css['list']}>
        {own.slice(0, shown).map(({ id, state, started_at: at }) => (
          <li key={id}>
            <Link href={placeOf.run(id)} className={css['item']}>
              <span className={css['names']}>
                <StateBadge state={state} /> <span>{id}</span>{' '}
                <span className={css['quiet']}>
                  <Ago time={at} />
                </span>
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
