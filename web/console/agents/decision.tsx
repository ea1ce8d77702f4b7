import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { api, unwrap } from '../../api/client.ts';
import { asFault } from '../../api/fault.ts';
import { CopyValue } from '../../ui/copy.tsx';
import { formatTime, escapeInvisible } from '../../ui/format.ts';
import { Badge, Button, DiffView, Facts, FaultNote, Loading, Panel, Row } from '../../ui/index.tsx';
import css from './agents.module.css';
import { DiscardDialog } from './discard-dialog.tsx';
import { RelativeTime, IdLink, StateBadge, ValueView } from './parts.tsx';
import type { PendingChange, PendingChangeDetail } from './schemas.ts';

export const RiskBadge = ({ risk }: Pick<PendingChange, 'risk'>) => (
  <Badge tone={risk === 'high' ? 'bad' : risk === 'medium' ? 'warn' : undefined}>{risk} risk</Badge>
);

/** A pending change, or an approval that a run asks for, with buttons to approve or discard it. */
export function Decision({ id }: { id: string }) {
  const queries = useQueryClient();
  const [isDiscarding, setDiscarding] = useState(false);
  const params = { path: { id } };
  const change = useQuery({
    queryKey: ['pending', id],
    queryFn: () => unwrap(api.GET('/agent/v1/pending/{id}', { params })),
  });
  const refresh = () =>
    Promise.all(
      [['pending'], ['acts'], ['run'], ['runs'], ['sessions']].map((queryKey) =>
        queries.invalidateQueries({ queryKey }),
      ),
    );
  const approve = useMutation({
    // What is on the screen, and nothing that was edited since.
    mutationFn: (digest: string) =>
      unwrap(api.POST('/agent/v1/pending/{id}/approve', { params: { ...params, query: { digest } } })),
    onSettled: refresh,
  });
  const discard = useMutation({
    mutationFn: (note: string) =>
      unwrap(
        api.POST('/agent/v1/pending/{id}/discard', { params, body: note.trim() === '' ? {} : { note } }),
      ),
    onSuccess: () => setDiscarding(false),
    onSettled: refresh,
  });
  const { data } = change;
  return (
    <Panel
      title={`${id}${data ? `: ${kindLabels[data.kind] ?? data.kind}` : ''}`}
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
            <strong>{escapeInvisible(data.summary)}</strong>
          </p>
          <ChangeFacts change={data} />
          {data.diff !== undefined && <DiffView diff={data.diff} label={`Diff of ${id}`} />}
          {approve.error !== null && <Refusal error={approve.error} id={id} />}
          {discard.error !== null && !isDiscarding && <FaultNote error={discard.error} />}
          {data.state === 'staged' && (
            <Row>
              <Button
                kind="primary"
                busy={approve.isPending}
                disabled={discard.isPending}
                onClick={() => approve.mutate(data.digest)}
              >
                Approve
              </Button>
              <Button disabled={approve.isPending} onClick={() => setDiscarding(true)}>
                Discard ...
              </Button>
              <span className={css['quiet']}>
                {data.diff === undefined
                  ? 'Approving performs exactly this action.'
                  : 'Approving applies exactly this diff. It is refused if the file has changed since.'}
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
        onDiscard={(note) => discard.mutate(note)}
        onClose={() => {
          setDiscarding(false);
          discard.reset();
        }}
      />
    </Panel>
  );
}

const kindLabels: Readonly<Record<string, string>> = {
  file_write: 'write or rename a file, or make a folder',
  file_delete: 'delete a file',
  exec: 'run a command',
  tool_call: 'tool call or question',
};

function ChangeFacts({ change }: { change: PendingChangeDetail }) {
  const { task_id: task, run_id: run, step, path, base_hash: baseHash } = change;
  const facts = [
    [
      'Intent',
      <span key="intent" className={css['prose']}>
        {escapeInvisible(change.intent)}
      </span>,
    ],
    ...(path === undefined ? [] : [['Path', <code key="path">{escapeInvisible(path)}</code>] as const]),
    ['Tool', <code key="tool">{escapeInvisible(change.tool)}</code>],
    [
      'Staged by',
      <span key="by">
        {change.agent}
        {task !== undefined && (
          <>
            {' '}
            in task <IdLink id={task} />
          </>
        )}
        {run !== undefined && (
          <>
            {' '}
            in run <IdLink id={run} />
            {step !== undefined && `, step ${step}`}
          </>
        )}
        , <RelativeTime time={change.created_at} />
      </span>,
    ],
    ...(baseHash === undefined
      ? []
      : [
          [
            'Base',
            baseHash === 'absent' ? (
              'none (new file)'
            ) : (
              <CopyValue key="base" value={baseHash} label="the base hash" />
            ),
          ] as const,
        ]),
    ...(change.state === 'staged'
      ? [['Expires', `${formatTime(change.expires_at)}; the change is dropped then`] as const]
      : []),
  ] as const;
  return <Facts facts={facts} />;
}

/** Why a change was not applied, and what to do about it. */
function Refusal({ error, id }: { error: unknown; id: string }) {
  const { code } = asFault(error);
  return (
    <>
      <FaultNote error={error} />
      {code === 'base_moved' && (
        <p role="note" className={css['prose']}>
          {id} stays staged. The file has changed; if you restore its earlier content, {id} can still be
          approved.
        </p>
      )}
    </>
  );
}

function Outcome({ change }: { change: PendingChangeDetail }) {
  const { id, state, decided_at: decidedAt, decided_by: decidedBy, output } = change;
  return (
    <div className={css['form']}>
      <p>
        {outcomeTexts[state] ?? state}
        {decidedBy !== undefined && ` Decided by ${decidedBy}`}
        {decidedAt !== undefined && ` at ${formatTime(decidedAt)}.`}{' '}
        <Link href="/console/pending">Other pending changes</Link>
      </p>
      {output && (
        <>
          <span className={css['quiet']}>
            {output.ok ? 'Output' : 'Error'}
            {output.truncated && ', truncated'}
          </span>
          <ValueView value={output.output} label={`Output of ${id}`} />
        </>
      )}
    </div>
  );
}

const outcomeTexts: Readonly<Record<string, string>> = {
  applying: 'The change is being applied ...',
  applied: 'The change was applied.',
  discarded: 'The change was discarded. Nothing was changed.',
  expired: 'The change expired without a decision. Nothing was changed.',
  failed: 'The change failed and is not retried.',
};
