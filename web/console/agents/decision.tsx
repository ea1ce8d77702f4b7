import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { api, held } from '../api/client.ts';
import { asFault } from '../api/fault.ts';
import { formatTime, visible } from '../parts/format.ts';
import { Badge, Button, DiffView, Facts, FaultNote, Loading, Panel, Row } from '../parts/index.tsx';
import css from './agents.module.css';
import { DiscardDialog } from './discard-dialog.tsx';
import { Ago, Id, StateBadge, Value } from './parts.tsx';
import type { PendingChange, PendingChangeDetail } from './shapes.ts';

export const RiskBadge = ({ risk }: Pick<PendingChange, 'risk'>) => (
  <Badge tone={risk === 'high' ? 'bad' : risk === 'medium' ? 'warn' : undefined}>{risk} risk</Badge>
);

/** A staged change, or a question of a run: what it is, and approving or declining it. */
export function Decision({ id }: { id: string }) {
  const queries = useQueryClient();
  const [isDiscarding, setDiscarding] = useState(false);
  const params = { path: { id } };
  const change = useQuery({
    queryKey: ['pending', id],
    queryFn: () => held(api.GET('/agent/v1/pending/{id}', { params })),
    refetchInterval: ({ state: { data } }) =>
      data?.state === 'staged' || data?.state === 'applying' ? 2000 : false,
  });
  const looked = () =>
    Promise.all(
      [['pending'], ['acts'], ['run'], ['runs'], ['sessions']].map((queryKey) =>
        queries.invalidateQueries({ queryKey }),
      ),
    );
  const approve = useMutation({
    mutationFn: () => held(api.POST('/agent/v1/pending/{id}/approve', { params })),
    onSettled: looked,
  });
  const discard = useMutation({
    mutationFn: (note: string) =>
      held(api.POST('/agent/v1/pending/{id}/discard', { params, body: note.trim() === '' ? {} : { note } })),
    onSuccess: () => setDiscarding(false),
    onSettled: looked,
  });
  const { data } = change;
  return (
    <Panel
      title={`${id}${data ? `: ${kinds[data.kind] ?? data.kind}` : ''}`}
      tools={
        data && (
          <>
            <RiskBadge risk={data.risk} />
            <StateBadge state={data.state} />
          </>
        )
      }
    >
      {change.isPending && <Loading what="the change" />}
      {change.isError && <FaultNote error={change.error} retry={() => void change.refetch()} />}
      {data && (
        <>
          <p className={css['prose']}>
            <strong>{visible(data.summary)}</strong>
          </p>
          <ChangeFacts change={data} />
          {data.diff !== undefined && <DiffView diff={data.diff} label={`What ${id} changes`} />}
          {approve.error !== null && <Refusal error={approve.error} id={id} />}
          {discard.error !== null && !isDiscarding && <FaultNote error={discard.error} />}
          {data.state === 'staged' && (
            <Row>
              <Button
                kind="primary"
                busy={approve.isPending}
                disabled={discard.isPending}
                onClick={() => approve.mutate()}
              >
                Approve
              </Button>
              <Button disabled={approve.isPending} onClick={() => setDiscarding(true)}>
                Discard ...
              </Button>
              <span className={css['quiet']}>
                {data.diff === undefined
                  ? 'Approving does what stands above, and nothing else.'
                  : 'Approving applies exactly this diff, unless the file has changed meanwhile.'}
              </span>
            </Row>
          )}
          <div role="status" className={css['live']}>
            {data.state !== 'staged' && <Outcome change={data} />}
          </div>
        </>
      )}
      <DiscardDialog
        id={id}
        open={isDiscarding}
        busy={discard.isPending}
        error={discard.error}
        discard={(note) => discard.mutate(note)}
        close={() => {
          setDiscarding(false);
          discard.reset();
        }}
      />
    </Panel>
  );
}

const kinds: Readonly<Record<string, string>> = {
  file_write: 'write a file',
  file_delete: 'delete a file',
  exec: 'run a command',
  tool_call: 'a call or a question',
};

function ChangeFacts({ change }: { change: PendingChangeDetail }) {
  const { task_id: task, run_id: run, step, path, base_hash: base } = change;
  const facts = [
    [
      'Intent',
      <span key="intent" className={css['prose']}>
        {visible(change.intent)}
      </span>,
    ],
    ...(path === undefined ? [] : [['Path', <code key="path">{visible(path)}</code>] as const]),
    ['Tool', <code key="tool">{visible(change.tool)}</code>],
    [
      'Staged by',
      <span key="by">
        {change.agent}
        {task !== undefined && (
          <>
            {' '}
            in task <Id id={task} />
          </>
        )}
        {run !== undefined && (
          <>
            {' '}
            in run <Id id={run} />
            {step !== undefined && `, step ${step}`}
          </>
        )}
        , <Ago time={change.created_at} />
      </span>,
    ],
    ...(base === undefined
      ? []
      : [['Upon', base === 'absent' ? 'no file: it is new' : <code key="base">{base}</code>] as const]),
    ...(change.state === 'staged'
      ? [['Expires', `${formatTime(change.expires_at)}; then nothing is changed`] as const]
      : []),
  ] as const;
  return <Facts facts={facts} />;
}

/** A refusal to apply, with what to do about it. */
function Refusal({ error, id }: { error: unknown; id: string }) {
  const { code } = asFault(error);
  return (
    <>
      <FaultNote error={error} />
      {code === 'base_moved' && (
        <p role="note" className={css['prose']}>
          {id} stays staged. Look at the file as it is now; if it is brought back to what it was, {id} can
          still be approved.
        </p>
      )}
    </>
  );
}

function Outcome({ change }: { change: PendingChangeDetail }) {
  const { id, state, decided_at: at, decided_by: by, output } = change;
  return (
    <div className={css['form']}>
      <p>
        {outcomes[state] ?? state}
        {by !== undefined && ` Decided by ${by}`}
        {at !== undefined && ` at ${formatTime(at)}.`} <Link href="/console/pending">What else waits</Link>
      </p>
      {output && (
        <>
          <span className={css['quiet']}>
            {output.ok ? 'What it gave' : 'What went wrong'}
            {output.truncated && ', cut: it was longer'}
          </span>
          <Value value={output.output} label={`Output of ${id}`} />
        </>
      )}
    </div>
  );
}

const outcomes: Readonly<Record<string, string>> = {
  applying: 'It is being applied ...',
  applied: 'It is applied.',
  discarded: 'It was discarded; nothing was changed.',
  expired: 'It expired before anybody had decided; nothing was changed.',
  failed: 'It failed, and is not applied again.',
};
