import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { fieldsOf } from '../../agents/declared.ts';
import { DeclaredForm } from '../../agents/declared-form.tsx';
import { Decision } from '../../agents/decision.tsx';
import { Ago, agentsCss as css } from '../../agents/parts.tsx';
import type { Gate, RunDetail } from '../../agents/shapes.ts';
import { api, held } from '../../api/client.ts';
import { formatTime } from '../../parts/format.ts';
import { Button, FaultNote, Panel, Row } from '../../parts/index.tsx';
import { SendEvent } from './send-event.tsx';

/** What a run waits for, with what a person can do about it. */
export function GatePanel({ run }: { run: RunDetail }) {
  const gate = run.gate as Gate | undefined;
  if (run.waiting_on === undefined || !gate || run.ended_at !== undefined) return null;
  const where = gate.step === undefined ? 'At its entry' : `At step ${gate.step}`;
  return (
    <Panel title={`${where}: ${titles[run.waiting_on]}`}>
      {gate.message !== undefined && gate.pending_id === undefined && (
        <div className={css['said']}>{gate.message}</div>
      )}
      <Answer
        // Another gate is another form.
        key={`${gate.step} ${gate.since_at}`}
        run={run}
        gate={gate}
      />
      {gate.since_at !== undefined && (
        <p className={css['quiet']}>
          It began to wait at {formatTime(gate.since_at)}, <Ago time={gate.since_at} />.
        </p>
      )}
    </Panel>
  );
}

const titles: Readonly<Record<NonNullable<RunDetail['waiting_on']>, string>> = {
  input: 'it asks for your input',
  approval: 'it asks for your approval',
  time: 'it waits for a time',
  value: 'it waits for a condition',
  event: 'it waits for an event',
  schedule: 'it waits for its schedule',
  armed: 'it is armed',
};

function Answer({ run, gate }: { run: RunDetail; gate: Gate }) {
  switch (run.waiting_on) {
    case 'input':
      return <InputGate run={run} gate={gate} />;
    case 'approval':
      return gate.pending_id === undefined ? (
        <p>The question is being written ...</p>
      ) : (
        <>
          <p className={css['quiet']}>
            The run keeps its place while it waits: no other one can begin. Discarding fails the step.
          </p>
          <Decision id={gate.pending_id} />
        </>
      );
    case 'time':
      return (
        <p>
          It goes on by itself
          {gate.until_at !== undefined && (
            <>
              {' '}
              at {formatTime(gate.until_at)}, <Ago time={gate.until_at} />
            </>
          )}
          . Nobody can open this gate earlier; the run can be cancelled.
        </p>
      );
    case 'value':
      return (
        <p>
          It goes on by itself when <code>{gate.expr}</code> holds, which is looked at every {gate.poll_secs}{' '}
          s. Nobody can open this gate by hand.
        </p>
      );
    case 'event':
      return (
        <>
          <p>
            It goes on when the event <code>{gate.name}</code> happens
            {gate.where !== undefined && (
              <>
                {' '}
                and <code>{gate.where}</code> holds
              </>
            )}
            .
          </p>
          {gate.name?.startsWith('user.') === true && <SendEvent name={gate.name} />}
        </>
      );
    case 'schedule':
    case 'armed':
      return <EntryGate run={run} gate={gate} />;
    case undefined:
      return null;
  }
}

function useSteer(id: string) {
  const queries = useQueryClient();
  return () =>
    Promise.all(
      [['run', id], ['runs'], ['sessions']].map((queryKey) => queries.invalidateQueries({ queryKey })),
    );
}

function InputGate({ run: { id }, gate }: { run: RunDetail; gate: Gate }) {
  const onSettled = useSteer(id);
  const [text, setText] = useState('{}');
  const resume = useMutation({
    mutationFn: (inputs: Record<string, unknown>) =>
      held(api.POST('/agent/v1/runs/{id}/resume', { params: { path: { id } }, body: { inputs } })),
    onSettled,
  });
  const fields = fieldsOf(gate.schema);
  const isBusy = resume.isPending || resume.isSuccess;
  if (fields)
    return (
      <DeclaredForm
        fields={fields}
        action="Send, and let it go on"
        busy={isBusy}
        error={resume.error}
        send={(inputs) => resume.mutate(inputs)}
      />
    );
  // It takes any object.
  const whole = {
    name: 'inputs',
    type: 'object',
    required: true,
    default: {},
    description: 'Any object.',
  } as const;
  return (
    <DeclaredForm
      fields={[whole]}
      values={{ inputs: JSON.parse(text) as unknown }}
      action="Send, and let it go on"
      busy={isBusy}
      error={resume.error}
      send={({ inputs }) => {
        setText(JSON.stringify(inputs));
        resume.mutate(inputs as Record<string, unknown>);
      }}
    />
  );
}

function EntryGate({ run: { id }, gate }: { run: RunDetail; gate: Gate }) {
  const onSettled = useSteer(id);
  const runNow = useMutation({
    mutationFn: () => held(api.POST('/agent/v1/runs/{id}/run-now', { params: { path: { id } } })),
    onSettled,
  });
  return (
    <>
      {gate.kind === 'armed' ? (
        <p>
          It waits until somebody lets it run. Each time, all steps run once, as one more cycle of this run.
        </p>
      ) : (
        <p>
          It fires by <code>{gate.cron}</code> in {gate.tz}
          {gate.until_at !== undefined && (
            <>
              , next at {formatTime(gate.until_at)}, <Ago time={gate.until_at} />
            </>
          )}
          {gate.fired_at !== undefined && (
            <>
              ; it fired last <Ago time={gate.fired_at} />
            </>
          )}
          . Each firing runs all steps once, as one more cycle of this run.
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
