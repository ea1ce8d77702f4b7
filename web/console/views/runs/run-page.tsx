import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import {
  RelativeTime,
  agentsCss as css,
  consolePath,
  StateBadge,
  Duration,
  ValueView,
} from '../../agents/parts.tsx';
import type { RunDetail } from '../../agents/schemas.ts';
import { api, unwrap } from '../../../api/client.ts';
import { CopyValue } from '../../../ui/copy.tsx';
import { formatNumber, formatTime } from '../../../ui/format.ts';
import { Facts, FaultNote, Loading, Page, Panel } from '../../../ui/index.tsx';
import { RunControls } from './controls.tsx';
import { GatePanel } from './gate-panel.tsx';
import { RunEvents } from './run-events.tsx';
import own from './runs.module.css';
import { Steps } from './steps.tsx';
import { stateLabel } from '../../../ui/states.ts';

/** A run: its gate, state, steps, events and actions. */
export function RunPage({ id }: { id: string }) {
  const run = useQuery({
    queryKey: ['run', id],
    queryFn: () => unwrap(api.GET('/agent/v1/runs/{id}', { params: { path: { id } } })),
  });
  const { data } = run;
  return (
    <Page
      title={data ? `Run of ${data.workflow}` : 'Run'}
      lead={id}
      tools={<Link href="/console/runs">All runs</Link>}
    >
      {run.isPending && <Loading what="the run" />}
      {run.isError && <FaultNote error={run.error} retry={() => void run.refetch()} />}
      {data && (
        <>
          <GatePanel run={data} />
          <div className={own['run']}>
            <Panel title="This run">
              <RunFacts run={data} />
              <RunControls run={data} />
            </Panel>
            <div className={`${css['stack']} ${own['story']}`}>
              <Steps run={data} />
              <RunEvents run={data} />
            </div>
            <div className={css['stack']}>
              {data.result !== undefined && (
                <Panel title="Result">
                  <ValueView value={data.result} label="Result of the run" />
                </Panel>
              )}
              <Panel title="Inputs">
                {Object.keys(data.inputs).length === 0 ? (
                  <p className={css['quiet']}>The run has no inputs.</p>
                ) : (
                  <ValueView value={data.inputs} label="Inputs of the run" />
                )}
              </Panel>
            </div>
          </div>
        </>
      )}
    </Page>
  );
}

function RunFacts({ run }: { run: RunDetail }) {
  const { tokens, route, retried_from: from, wrapper_cycle: cycle, last_event: last } = run;
  return (
    <Facts
      facts={[
        [
          'State',
          <span key="state" role="status">
            <StateBadge state={run.state} waitingOn={run.waiting_on} />
          </span>,
        ],
        ...(last === undefined ? [] : [['Last event', stateLabel(last)] as const]),
        [
          'Workflow',
          <Link key="workflow" href={consolePath.workflow(run.workflow)}>
            {run.workflow}
          </Link>,
        ],
        [
          'Started',
          <span key="at">
            {formatTime(run.started_at)}, <RelativeTime time={run.started_at} />
          </span>,
        ],
        ...(run.ended_at === undefined ? [] : [['Ended', formatTime(run.ended_at)] as const]),
        [
          run.ended_at === undefined ? 'Running for' : 'Duration',
          <Duration key="took" from={run.started_at} to={run.ended_at} />,
        ],
        ...(cycle === undefined ? [] : [['Cycles started', String(cycle)] as const]),
        ...(route ? [['Model', `${route.model} (${route.engine})`] as const] : []),
        ...(tokens
          ? [
              [
                'Tokens',
                `${formatNumber(tokens.prompt)} prompt, ${formatNumber(tokens.completion)} completion`,
              ] as const,
            ]
          : []),
        ...(from === undefined
          ? []
          : [
              [
                'Retry of',
                <Link key="from" href={consolePath.run(from)}>
                  {from}
                </Link>,
              ] as const,
            ]),
        ['Workflow digest', <CopyValue key="digest" value={run.digest} label="the workflow's digest" />],
        ...(run.ended_at === undefined
          ? []
          : [
              [
                'Receipt',
                <Link key="receipt" href={consolePath.session(run.id)}>
                  session and signed receipt
                </Link>,
              ] as const,
            ]),
      ]}
    />
  );
}
