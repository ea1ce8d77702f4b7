import { useMutation, useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { RelativeTime, agentsCss as css, consolePath, StateBadge } from '../../agents/parts.tsx';
import { DeclaredForm } from '../../agents/declared-form.tsx';
import { startRun } from '../../agents/start-run.ts';
import { api, unwrap } from '../../../api/client.ts';
import { asFault } from '../../../api/fault.ts';
import { Empty, Field, Loading, Panel } from '../../../ui/index.tsx';

/** Form that runs a workflow with its declared inputs, and its recent runs. */
export const RunPanel = (props: {
  name: string;
  source: string;
  enabled: boolean;
  /** The editor has unsaved changes; the stored version runs. */
  isChanged?: boolean;
}) => (
  <>
    <Panel title="Run">
      {props.enabled ? (
        <Suspense fallback={<Loading what="its inputs" />}>
          <RunForm {...props} />
        </Suspense>
      ) : (
        <Empty title="This workflow is not enabled.">
          To enable it, start the host with <code data-flag>--enable-workflow {props.name}</code>.
        </Empty>
      )}
    </Panel>
    <RecentRuns name={props.name} />
  </>
);

/** The TOML parser is loaded on first use. */
const RunForm = lazy(async () => {
  const { parseWorkflowInputs: declaredIn } = await import('./workflow-inputs.ts');
  return {
    default: function Form({ name, source, isChanged }: Parameters<typeof RunPanel>[0]) {
      const [input, setInput] = useState('');
      const [, navigate] = useLocation();
      const start = useMutation({
        mutationFn: (inputs: Record<string, unknown>) =>
          startRun(name, { inputs, ...(input === '' ? {} : { input }) }),
        onSuccess: (id) => navigate(consolePath.run(id)),
      });
      const workflowInputs = declaredIn(source);
      if (!workflowInputs)
        return <p className={css['quiet']}>The source cannot be parsed. Fix and save it first.</p>;
      const { inputs, entry, usesInput } = workflowInputs;
      const blockingRun = runInProgress(start.error);
      return (
        <>
          {isChanged === true && (
            <p className={css['quiet']}>The stored version runs. Your changes are not saved.</p>
          )}
          {entry === 'armed' && (
            <p className={css['quiet']}>
              This workflow is armed: its run waits until you press Run now, which starts a cycle.
            </p>
          )}
          {entry === 'schedule' && (
            <p className={css['quiet']}>
              The run waits for its schedule. Each firing runs all steps once. Cancel the run to stop it.
            </p>
          )}
          {usesInput && (
            <Field
              label="Input"
              hint={
                <>
                  Text that replaces <code>{'{{input}}'}</code>.
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
          {inputs.length === 0 && !usesInput && <p className={css['quiet']}>This workflow has no inputs.</p>}
          <DeclaredForm
            fields={inputs}
            action={entry === undefined ? 'Run' : 'Start'}
            busy={start.isPending}
            error={start.error}
            onSubmit={(values) => start.mutate(values)}
          />
          {blockingRun !== undefined && (
            <p>
              <Link href={consolePath.run(blockingRun)}>Open the run in progress</Link>
            </p>
          )}
        </>
      );
    },
  };
});

/** Id of the run in progress, from a `run_in_flight` refusal. */
const runInProgress = (error: unknown): string | undefined => {
  if (!error) return undefined;
  const { code, message } = asFault(error);
  return code === 'run_in_flight' ? /\br\d+\b/.exec(message)?.[0] : undefined;
};

const maxRecentRuns = 5;
function RecentRuns({ name }: { name: string }) {
  const runs = useQuery({
    queryKey: ['runs', 100],
    queryFn: () => unwrap(api.GET('/agent/v1/workflows/runs', { params: { query: { limit: '100' } } })),
  });
  const own = runs.data?.filter(({ workflow }) => workflow === name) ?? [];
  if (own.length === 0) return null;
  return (
    <Panel title="Recent runs" tools={<Link href={`/console/runs?workflow=${name}`}>All runs</Link>}>
      <ul className={css['list']}>
        {own.slice(0, maxRecentRuns).map(({ id, state, started_at: at }) => (
          <li key={id}>
            <Link href={consolePath.run(id)} className={css['item']}>
              <span className={css['names']}>
                <StateBadge state={state} /> <span>{id}</span>{' '}
                <span className={css['quiet']}>
                  <RelativeTime time={at} />
                </span>
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
