import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { schemaFields } from '../../agents/declared-fields.ts';
import { DeclaredForm } from '../../agents/declared-form.tsx';
import { Decision } from '../../agents/decision.tsx';
import { RelativeTime, agentsCss as css } from '../../agents/parts.tsx';
import type { Gate, RunDetail } from '../../agents/schemas.ts';
import { api, unwrap } from '../../../api/client.ts';
import { formatTime } from '../../../ui/format.ts';
import { Button, FaultNote, Panel, Row } from '../../../ui/index.tsx';
import { SendEventForm } from './send-event.tsx';

/** The gate that a run waits at, and the actions that open it. */
export function GatePanel({ run }: { run: RunDetail }) {
  const gate = run.gate as Gate | undefined;
  if (run.waiting_on === undefined || !gate || run.ended_at !== undefined) return null;
  const location = gate.step === undefined ? 'Entry' : `Step ${gate.step}`;
  return (
    <Panel title={`${location}: ${gateTitles[run.waiting_on]}`}>
      {gate.message !== undefined && gate.pending_id === undefined && (
        <div className={css['said']}>{gate.message}</div>
      )}
      <GateBody
        // Each gate has its own form state.
        key={`${gate.step} ${gate.since_at}`}
        run={run}
        gate={gate}
      />
      {gate.since_at !== undefined && (
        <p className={css['quiet']}>
          Waiting since {formatTime(gate.since_at)}, <RelativeTime time={gate.since_at} />.
        </p>
      )}
    </Panel>
  );
}

const gateTitles: Readonly<Record<NonNullable<RunDetail['waiting_on']>, string>> = {
  input: 'input required',
  approval: 'approval required',
  time: 'waiting for a time',
  value: 'waiting for a condition',
  event: 'waiting for an event',
  schedule: 'waiting for its schedule',
  armed: 'armed',
};

function GateBody({ run, gate }: { run: RunDetail; gate: Gate }) {
  switch (run.waiting_on) {
    case 'input':
      return <InputGate run={run} gate={gate} />;
    case 'approval':
      return gate.pending_id === undefined ? (
        <p>Preparing the approval ...</p>
      ) : (
        <>
          <p className={css['quiet']}>
            No other run can start while this one waits. Discarding fails the step.
          </p>
          <Decision id={gate.pending_id} />
        </>
      );
    case 'time':
      return (
        <p>
          The run resumes automatically
          {gate.until_at !== undefined && (
            <>
              {' '}
              at {formatTime(gate.until_at)}, <RelativeTime time={gate.until_at} />
            </>
          )}
          . The gate cannot be opened earlier, but you can cancel the run.
        </p>
      );
    case 'value':
      return (
        <p>
          The run resumes automatically when <code>{gate.expr}</code> is true, which is checked every{' '}
          {gate.poll_secs} s. The gate cannot be opened manually.
        </p>
      );
    case 'event':
      return (
        <>
          <p>
            The run resumes when the event <code>{gate.name}</code> occurs
            {gate.where !== undefined && (
              <>
                {' '}
                and <code>{gate.where}</code> is true
              </>
            )}
            .
          </p>
          {gate.name?.startsWith('user.') === true && <SendEventForm name={gate.name} />}
        </>
      );
    case 'schedule':
    case 'armed':
      return <EntryGate run={run} gate={gate} />;
    case undefined:
      return null;
  }
}

function useRefreshRun(id: string) {
  const queries = useQueryClient();
  return () =>
    Promise.all(
      [['run', id], ['runs'], ['sessions']].map((queryKey) => queries.invalidateQueries({ queryKey })),
    );
}

function InputGate({ run: { id }, gate }: { run: RunDetail; gate: Gate }) {
  const onSettled = useRefreshRun(id);
  const [text, setText] = useState('{}');
  const resume = useMutation({
    mutationFn: (inputs: Record<string, unknown>) =>
      unwrap(api.POST('/agent/v1/runs/{id}/resume', { params: { path: { id } }, body: { inputs } })),
    onSettled,
  });
  const fields = schemaFields(gate.schema);
  const isBusy = resume.isPending || resume.isSuccess;
  if (fields)
    return (
      <DeclaredForm
        fields={fields}
        action="Send and resume"
        busy={isBusy}
        error={resume.error}
        onSubmit={(inputs) => resume.mutate(inputs)}
      />
    );
  // Without a schema, the gate takes any object.
  const anyObjectField = {
    name: 'inputs',
    type: 'object',
    required: true,
    default: {},
    description: 'Any JSON object.',
  } as const;
  return (
    <DeclaredForm
      fields={[anyObjectField]}
      values={{ inputs: JSON.parse(text) as unknown }}
      action="Send and resume"
      busy={isBusy}
      error={resume.error}
      onSubmit={({ inputs }) => {
        setText(JSON.stringify(inputs));
        resume.mutate(inputs as Record<string, unknown>);
      }}
    />
  );
}

function EntryGate({ run: { id }, gate }: { run: RunDetail; gate: Gate }) {
  const onSettled = useRefreshRun(id);
  const runNow = useMutation({
    mutationFn: () => unwrap(api.POST('/agent/v1/runs/{id}/run-now', { params: { path: { id } } })),
    onSettled,
  });
  return (
    <>
      {gate.kind === 'armed' ? (
        <p>The run waits for Run now. Each time, all steps run once as a new cycle of this run.</p>
      ) : (
        <p>
          Schedule: <code>{gate.cron}</code> in {gate.tz}
          {gate.until_at !== undefined && (
            <>
              , next at {formatTime(gate.until_at)}, <RelativeTime time={gate.until_at} />
            </>
          )}
          {gate.fired_at !== undefined && (
            <>
              ; last fired <RelativeTime time={gate.fired_at} />
            </>
          )}
          . Each firing runs all steps once as a new cycle of this run.
        </p>
      )}
      <Row>
        <Button kind="primary" busy={runNow.isPending} onClick={() => runNow.mutate()}>
          Run now
        </Button>
      </Row>
      {runNow.error !== null && <FaultNote error={runNow.error} />}
    </>
  );
}
