import { AgentError } from '../../errors.ts';

/**
 * The same error for unknown and for not enabled workflow names. It contains no name, so that it discloses nothing.
 */
export const workflowNotCallable = (): AgentError =>
  new AgentError(
    'not_found',
    'workflow_not_found',
    'There is no workflow of this name that may be run by name. The operator enables one with --enable-workflow.',
  );

export const runNotFound = (id: string): AgentError => {
  const isTask = /^t\d+$/.test(id);
  const hint = isTask
    ? `it is a task: see GET /agent/v1/tasks/${id}`
    : 'GET /agent/v1/workflows/runs lists them';
  return new AgentError('not_found', 'run_not_found', `There is no run '${id.slice(0, 100)}'; ${hint}.`);
};

/** @param wanted the state that the verb requires */
export const wrongStateError = (id: string, state: string, requirement: string): AgentError =>
  new AgentError('conflict', 'wrong_state', `The run ${id} is ${state}; ${requirement}.`);

export const runInFlight = (holder: string): AgentError =>
  new AgentError(
    'conflict',
    'run_in_flight',
    `A run is already in flight on this host: ${holder}. One runs at a time, and one that is paused counts: GET /agent/v1/runs/${holder} shows what it waits for. Wait until it ends, or cancel it.`,
  );

export const notRetriableError = (id: string, reason: string): AgentError =>
  new AgentError(
    'conflict',
    'invalid_retried_from',
    `retried_from failed verification: ${id.slice(0, 100)} ${reason}; name a run of this workflow that has failed.`,
  );

export const runOnOtherHost = (id: string, endpoint: string): AgentError =>
  new AgentError(
    'conflict',
    'other_host',
    `The run ${id} belongs to another host on this database (${endpoint}); ask that one.`,
  );
