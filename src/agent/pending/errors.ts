import { AgentError } from '../errors.ts';
import type { PendingRow } from './rows.ts';

export const changeNotFound = (id: string) =>
  new AgentError('not_found', 'not_found', `There is no pending change '${id.slice(0, 80)}'.`);

/** The message is sent to the model. */
export const tooManyStaged = (maxStaged: number) =>
  new AgentError(
    'too_many',
    'too_many_staged',
    `Nothing was staged: ${maxStaged} changes of yours wait for a person already, and no more are taken until some are decided.`,
  );

/** Why a change that is decided or being applied cannot be decided differently. */
export function alreadyDecided({ id, state, decided_at, decided_by, applier }: PendingRow): AgentError {
  const by = decided_by === null ? '' : ` by '${decided_by}'`;
  const when = decided_at === null ? '' : ` at ${decided_at}`;
  const [code, message] = {
    staged: ['staged', `${id} still waits for a decision.`],
    applying: [
      'being_applied',
      `${id} is being applied on host '${applier}', since${when || ' a moment ago'}; ask again when that has ended.`,
    ],
    applied: ['already_applied', `${id} was applied${when}, approved${by}; the decision is final.`],
    discarded: [
      'already_discarded',
      `${id} was discarded${when}${by}; nothing was changed. ${proposeAgainHint}`,
    ],
    expired: [
      'expired',
      `${id} expired${when}, before anybody had decided; nothing was changed. ${proposeAgainHint}`,
    ],
    failed: [
      'already_failed',
      `${id} failed${when}, approved${by}, and is not applied again. ${proposeAgainHint}`,
    ],
  }[state];
  return new AgentError('conflict', code ?? state, message ?? '');
}
const proposeAgainHint = 'If the change is still wanted, have the agent propose it again.';

export const changedSince = (id: string) =>
  new AgentError(
    'conflict',
    'changed',
    `${id} was edited since you read it: look at it again, and approve it with its new digest.`,
  );

export const notAText = (id: string) =>
  new AgentError('conflict', 'not_a_text', `${id} is no text of a file; approve it as it is, or discard it.`);

export const toolUnavailable = (id: string, tool: string, reason: string) =>
  new AgentError(
    'conflict',
    'tool_unavailable',
    `The tool '${tool}' cannot run: ${reason.replace(/\.$/, '')}. ${id} stays staged: approve it again when the tool is there, or discard it.`,
  );

export const stagedElsewhere = (id: string, endpointId: string) =>
  new AgentError(
    'conflict',
    'staged_elsewhere',
    `${id} was staged on host '${endpointId}', whose files and servers it is about: approve it there. Discarding it works here, too.`,
  );

export const buildsOn = (id: string, earlier: string) =>
  new AgentError(
    'conflict',
    'builds_on',
    `${id} builds on ${earlier}, which is still staged: approve ${earlier} first, or both with POST /agent/v1/pending/approve.`,
  );

export const notASet = (reasons: readonly string[]) =>
  new AgentError('conflict', 'not_a_set', `Nothing was applied. ${reasons.join(' ')}`);

export const setNotApplied = ({ code, message }: AgentError) =>
  new AgentError('conflict', code, `${message.replace(/\.$/, '')}. All changes of the set stay staged.`);
