import { errorMessage } from '../../util/error-message.ts';
import { AgentError } from '../errors.ts';
import type { ChangeSet, ChangeTool, OnOutput, ToolOutput } from '../tool.ts';
import { isAutoApproved, type StoredOutcome } from './pending-store.ts';
import { verifyOnDisk } from './verify-on-disk.ts';
import { failedOutput, type PendingRow } from './rows.ts';

export interface ApplyOutcome extends StoredOutcome {
  /** Why the change was not applied, for the client that approved it. */
  readonly error?: AgentError;
}

/** Applies a claimed change, and returns the outcome. Never rejects. */
export async function applyChange(
  tool: ChangeTool,
  row: PendingRow,
  signal: AbortSignal,
  onOutput?: OnOutput,
): Promise<ApplyOutcome> {
  if (signal.aborted) return notApplied(errorText(signal.reason));
  let output: ToolOutput;
  try {
    const approval = isAutoApproved(row) ? 'grants' : 'person';
    output = await tool.apply(JSON.parse(row.payload), signal, approval, onOutput);
  } catch (error) {
    // A tool refuses before it changes anything. The signal's reason is not a refusal, but may look like one.
    if (error instanceof AgentError && error !== signal.reason && isRefusal(error))
      return { state: 'staged', reason: error.code, output: failedOutput(error.message), error };
    return await resolveAfterFailure(tool, row, errorText(error));
  }
  // A failed command has run; a failed file operation has not changed the file.
  if (output.ok || !isFileChange(row)) return { state: 'applied', output };
  return await resolveAfterFailure(tool, row, output.output);
}

/** Applies the claimed changes of a set, in order or none, and returns their outcomes. Never rejects. */
export async function applySet(
  rows: readonly PendingRow[],
  set: ChangeSet,
  resumes: boolean,
): Promise<readonly ApplyOutcome[]> {
  try {
    const outputs = await set.apply(
      rows.map(({ payload }) => JSON.parse(payload) as unknown),
      resumes,
    );
    return outputs.map((output) => ({ state: 'applied', output, ...(resumes ? { recovered: true } : {}) }));
  } catch (error) {
    const refusal =
      error instanceof AgentError && isRefusal(error)
        ? error
        : new AgentError('conflict', 'apply_failed', `Nothing was changed: ${errorText(error)}.`);
    return rows.map(() => ({
      state: 'staged',
      reason: refusal.code,
      output: failedOutput(refusal.message),
      error: refusal,
    }));
  }
}

/** Determines the outcome of a change that the host was applying when it ended. */
export async function resolveAfterCrash(
  tool: ChangeTool | undefined,
  row: PendingRow,
): Promise<ApplyOutcome> {
  const outcome = await resolveAfterFailure(tool, row, 'the host ended while it was being applied');
  return { ...outcome, recovered: true };
}

async function resolveAfterFailure(
  tool: ChangeTool | undefined,
  row: PendingRow,
  reason: string,
): Promise<ApplyOutcome> {
  const verified = await checkApplied(tool, row);
  if (verified === 'applied') {
    const text = `It was applied, but an error followed: ${reason}.`;
    return { state: 'applied', output: { ok: true, output: text, truncated: false } };
  }
  if (verified === 'not_applied') return notApplied(reason);
  const message = `It may have been applied, partly or completely: ${reason}. It will not be applied again; check the current state.`;
  const error = new AgentError('conflict', 'may_have_run', message);
  return { state: 'failed', reason: error.code, output: failedOutput(message), error };
}

function notApplied(reason: string): ApplyOutcome {
  const message = `Nothing was changed: ${reason}. It stays staged: fix the cause and approve it again, or discard it.`;
  const error = new AgentError('conflict', 'apply_failed', message);
  return { state: 'staged', reason: error.code, output: failedOutput(reason), error };
}

/** Asks the tool, whose answer counts even if it is `unknown`. Without such a tool, the file itself may show it. */
async function checkApplied(tool: ChangeTool | undefined, row: PendingRow) {
  if (!tool?.verify) return await verifyOnDisk(row);
  try {
    return await tool.verify(JSON.parse(row.payload));
  } catch {
    // A verification that fails means `unknown`.
    return 'unknown';
  }
}

const isRefusal = ({ kind }: AgentError) => kind === 'conflict' || kind === 'unavailable';
const isFileChange = ({ kind }: PendingRow) => kind === 'file_write' || kind === 'file_delete';
const errorText = (error: unknown) => errorMessage(error).replace(/\.$/, '');
