import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { api, unwrap } from '../../../api/client.ts';
import { session } from '../../../api/session.ts';
import { Badge, Panel } from '../../../ui/index.tsx';
import { protectedQueryOptions } from '../../shell/protected-route.tsx';
import { type Parts, useParts } from '../lab/kernels/queries.ts';
import css from './home.module.css';
import type { Info } from './info.ts';
import { useTelemetry } from './telemetry.ts';

/** Id of the model that is part of lathe: small, and only for trying it out. */
const embeddedModel = 'lathe-tiny';

const hasKernel = ({ kernels }: Parts): boolean => kernels.length > 0;

/** What to try first. A step is done when the host has seen it. */
export function FirstSteps({ info }: { info: Info | undefined }) {
  const served = useTelemetry().data?.served;
  const parts = useParts({ enabled: info?.model != null }).data;
  const hasRecordedChat = useHasRecordedChat().data ?? false;
  const models = [info?.model, ...(info?.models ?? [])];
  const steps: readonly { name: string; isDone: boolean; how: ReactNode }[] = [
    {
      name: 'Get an answer',
      isDone: (served?.completions ?? 0) > 0 || hasRecordedChat,
      how: (
        <>
          <Link href="/console/chat">Chat with the model</Link>, or run one of the programs.
        </>
      ),
    },
    {
      name: 'Register a kernel',
      isDone: parts !== undefined && hasKernel(parts),
      how: (
        <>
          <Link href="/console/lab/kernels">Open the workbench</Link>: every stub is a correct kernel already.
        </>
      ),
    },
    {
      name: 'Give an agent a task',
      isDone: useHasTask(served?.tasks).data ?? false,
      how: (
        <>
          <Link href="/console/tasks">Start a task</Link>: its changes wait for your approval.
        </>
      ),
    },
    {
      name: 'Load a real model',
      isDone: models.some((model) => model != null && model.id !== embeddedModel),
      how: (
        <>
          <Link href="/console/models">Pull one by its name</Link>; {embeddedModel} is only for trying things
          out.
        </>
      ),
    },
  ];
  const done = steps.filter(({ isDone }) => isDone).length;
  return (
    <Panel
      title="First steps"
      tools={
        <Badge tone={done === steps.length ? 'good' : undefined}>
          {done} of {steps.length}
        </Badge>
      }
    >
      <ol className={css['steps']}>
        {steps.map(({ name, isDone, how }) => (
          <li key={name} data-done={isDone}>
            <span className={css['tick']} aria-hidden="true">
              {isDone ? '✓' : ''}
            </span>
            <div>
              <strong>{name}</strong>
              <span className={css['hidden']}>{isDone ? ' (done)' : ' (to do)'}</span>
              {!isDone && <div className={css['how']}>{how}</div>}
            </div>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

/** Whether the host has run a task, also before its last start. @param served tasks since the start */
const useHasTask = (served: number | undefined) =>
  useQuery({
    queryKey: ['home', 'has-task', served],
    enabled: served !== undefined,
    queryFn: async () => {
      if (served !== undefined && served > 0) return true;
      const { sessions } = await unwrap(api.GET('/agent/v1/sessions'));
      return sessions.some(({ kind }) => kind === 'task');
    },
  });

/** Whether a completion is recorded, also before the last start. Not requested without the token that it needs. */
const useHasRecordedChat = () =>
  useQuery({
    queryKey: ['observe', 'has-chat'],
    enabled: session.isSignedIn,
    ...protectedQueryOptions,
    queryFn: async () => {
      const body = { surface: 'completions', aggregate: [{ fn: 'count' as const, as: 'completions' }] };
      const { rows } = await unwrap(api.POST('/observe/v1/query', { body }));
      return Number(rows[0]?.[0] ?? 0) > 0;
    },
  });
