import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { agentsCss as css, consolePath } from '../../agents/parts.tsx';
import type { RunDetail } from '../../agents/schemas.ts';
import { startRun } from '../../agents/start-run.ts';
import { api, unwrap } from '../../../api/client.ts';
import { Button, Confirm, FaultNote, Row } from '../../../ui/index.tsx';

/** Actions on a run, by its state: pause, resume, cancel, retry. */
export function RunControls({ run }: { run: RunDetail }) {
  const { id, state, workflow, inputs, cancellable } = run;
  const [isCancelling, setCancelling] = useState(false);
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const params = { path: { id } };
  const onSettled = () =>
    Promise.all(
      [['run', id], ['runs'], ['sessions']].map((queryKey) => queries.invalidateQueries({ queryKey })),
    );
  const pause = useMutation({
    mutationFn: () => unwrap(api.POST('/agent/v1/runs/{id}/pause', { params })),
    onSettled,
  });
  const resume = useMutation({
    mutationFn: () => unwrap(api.POST('/agent/v1/runs/{id}/resume', { params, body: {} })),
    onSettled,
  });
  const cancel = useMutation({
    mutationFn: () => unwrap(api.POST('/agent/v1/sessions/{id}/cancel', { params })),
    onSettled: async () => {
      setCancelling(false);
      await onSettled();
    },
  });
  const retry = useMutation({
    mutationFn: () => startRun(workflow, { inputs, retried_from: id }),
    onSuccess: (newId) => navigate(consolePath.run(newId)),
  });
  const error = [pause, resume, cancel, retry].find((mutation) => mutation.error !== null)?.error;
  const isExecuting = state === 'running' && run.waiting_on === undefined;
  const isLive = run.ended_at === undefined;
  return (
    <>
      <Row>
        {isExecuting && (
          <Button busy={pause.isPending} onClick={() => pause.mutate()}>
            Pause
          </Button>
        )}
        {state === 'paused' && (
          <Button kind="primary" busy={resume.isPending} onClick={() => resume.mutate()}>
            Resume
          </Button>
        )}
        {isLive && (
          <Button kind="danger" disabled={!cancellable} onClick={() => setCancelling(true)}>
            Cancel the run
          </Button>
        )}
        {state === 'failed' && (
          <Button kind="primary" busy={retry.isPending} onClick={() => retry.mutate()}>
            Retry
          </Button>
        )}
      </Row>
      <div className={`${css['quiet']} ${css['live']}`} role="status">
        {statusHint(run, pause.isSuccess, cancel.isSuccess)}
      </div>
      {error !== undefined && <FaultNote error={error} />}
      <Confirm
        title="Cancel this run?"
        isOpen={isCancelling}
        action="Cancel the run"
        busy={cancel.isPending}
        onConfirm={() => cancel.mutate()}
        onClose={() => setCancelling(false)}
      >
        <p>
          {state === 'suspended'
            ? 'The run ends immediately. Completed work is kept.'
            : 'The run ends after the current step. Completed work is kept.'}
        </p>
      </Confirm>
    </>
  );
}

function statusHint(run: RunDetail, isPausing: boolean, isCancelling: boolean): string {
  const { state, waiting_on: waitingOn, cancellable, ended_at: endedAt } = run;
  if (state === 'failed')
    return 'Retry starts a new run from the first step, with the same inputs and the stored version of the workflow.';
  if (endedAt !== undefined) return '';
  if (isCancelling) return 'The run ends before its next step.';
  if (state === 'paused')
    return 'No other run can start while this one is paused. It resumes automatically after 300 seconds.';
  const uncancellable = cancellable
    ? ''
    : ' The run was resumed from a gate and cannot be cancelled until it is suspended again.';
  if (isPausing && state === 'running') return `The run pauses before its next step.${uncancellable}`;
  if (state === 'running' && waitingOn === undefined)
    return `A pause starts before the next step and ends automatically after 300 seconds.${uncancellable}`;
  return uncancellable.trim();
}
