import { errorMessage } from '../../util/error-message.ts';
import { AgentError } from '../errors.ts';
import type { ChangeTool, ToolOutput } from '../tool.ts';
import type { Settlement } from './ledger.ts';
import { onDisk } from './on-disk.ts';
import { failure, type PendingRow } from './rows.ts';

export interface Ending extends Settlement {
  /** Why the change was not applied, for the client that approved it. */
  readonly error?: AgentError;
}

/** Applies a claimed change, and returns the outcome. Never rejects. */
export async function applyChange(tool: ChangeTool, row: PendingRow, signal: AbortSignal): Promise<Ending> {
  if (signal.aborted) return notDone(said(signal.reason));
  let output: ToolOutput;
  try {
    output = await tool.apply(JSON.parse(row.payload), signal);
  } catch (error) {
    // A tool refuses before it changes anything. The signal's reason is not a refusal, but may look like one.
    if (error instanceof AgentError && error !== signal.reason && isRefusal(error))
      return { state: 'staged', reason: error.code, output: failure(error.message), error };
    return await afterFailure(tool, row, said(error));
  }
  // A failed command has run; a failed file operation has not changed the file.
  if (output.ok || !isFile(row)) return { state: 'applied', output };
  return await afterFailure(tool, row, output.output);
}

/** Determines the outcome of a change that the host was applying when it ended. */
export async function afterCrash(tool: ChangeTool | undefined, row: PendingRow): Promise<Ending> {
  const ending = await afterFailure(tool, row, 'the host ended while it was being applied');
  return { ...ending, recovered: true };
}

async function afterFailure(tool: ChangeTool | undefined, row: PendingRow, why: string): Promise<Ending> {
  const done = await whatWasDone(tool, row);
  if (done === 'applied') {
    const text = `It was applied, but an error followed: ${why}.`;
    return { state: 'applied', output: { ok: true, output: text, truncated: false } };
  }
  if (done === 'not_applied') return notDone(why);
  const message = `It may have been applied, partly or completely: ${why}. It will not be applied again; check the current state.`;
  const error = new AgentError('conflict', 'may_have_run', message);
  return { state: 'failed', reason: error.code, output: failure(message), error };
}

function notDone(why: string): Ending {
  const message = `Nothing was changed: ${why}. It stays staged: fix the cause and approve it again, or discard it.`;
  const error = new AgentError('conflict', 'apply_failed', message);
  return { state: 'staged', reason: error.code, output: failure(why), error };
}

/** Asks the tool, whose answer counts even if it is `unknown`. Without such a tool, the file itself may show it. */
async function whatWasDone(tool: ChangeTool | undefined, row: PendingRow) {
  if (!tool?.verify) return await onDisk(row);
  try {
    return await tool.verify(JSON.parse(row.payload));
  } catch {
    // A verification that fails means `unknown`.
    return 'unknown';
  }
}

const isRefusal = ({ kind }: AgentError) => kind === 'conflict' || kind === 'unavailable';
const isFile = ({ kind }: PendingRow) => kind === 'file_write' || kind === 'file_delete';
const said = (error: unknown) => errorMessage(error).replace(/\.$/, '');
