import { errorMessage } from '../../util/error-message.ts';
import { AgentError } from '../errors.ts';
import type { ChangeTool, ToolOutput } from '../tool.ts';
import type { Settlement } from './ledger.ts';
import { onDisk } from './on-disk.ts';
import { failure, type PendingRow } from './rows.ts';

export interface Ending extends Settlement {
  /** Why it was not applied, for whoever asked for it. */
  readonly error?: AgentError;
}

/** Applies a claimed change and says honestly how that ended. Never rejects. */
export async function applyChange(tool: ChangeTool, row: PendingRow, signal: AbortSignal): Promise<Ending> {
  if (signal.aborted) return notDone(said(signal.reason));
  let output: ToolOutput;
  try {
    output = await tool.apply(JSON.parse(row.payload), signal);
  } catch (error) {
    // A refusal comes before anything is done; the signal's reason may look like one.
    if (error instanceof AgentError && error !== signal.reason && isRefusal(error))
      return { state: 'staged', reason: error.code, output: failure(error.message), error };
    return await afterFailure(tool, row, said(error));
  }
  // A command that fails has run; a file that could not be written was not.
  if (output.ok || !isFile(row)) return { state: 'applied', output };
  return await afterFailure(tool, row, output.output);
}

/** What became of a change whose end nobody saw, since the host ended in the middle of it. */
export async function afterCrash(tool: ChangeTool | undefined, row: PendingRow): Promise<Ending> {
  const ending = await afterFailure(tool, row, 'the host ended while it was applied');
  return { ...ending, recovered: true };
}

async function afterFailure(tool: ChangeTool | undefined, row: PendingRow, why: string): Promise<Ending> {
  const done = await whatWasDone(tool, row);
  if (done === 'applied') {
    const text = `It was applied, although something went wrong then: ${why}.`;
    return { state: 'applied', output: { ok: true, output: text, truncated: false } };
  }
  if (done === 'not_applied') return notDone(why);
  const message = `It may have been applied, in part or as a whole: ${why}. It will not be applied again; look at what is there.`;
  const error = new AgentError('conflict', 'may_have_run', message);
  return { state: 'failed', reason: error.code, output: failure(message), error };
}

function notDone(why: string): Ending {
  const message = `Nothing was changed: ${why}. It stays staged: mend that and approve it again, or discard it.`;
  const error = new AgentError('conflict', 'apply_failed', message);
  return { state: 'staged', reason: error.code, output: failure(why), error };
}

/** What the tool says counts, also that it does not know; where there is none to ask, the path may show it. */
async function whatWasDone(tool: ChangeTool | undefined, row: PendingRow) {
  if (!tool?.verify) return await onDisk(row);
  try {
    return await tool.verify(JSON.parse(row.payload));
  } catch {
    // A tool that cannot tell does not know.
    return 'unknown';
  }
}

const isRefusal = ({ kind }: AgentError) => kind === 'conflict' || kind === 'unavailable';
const isFile = ({ kind }: PendingRow) => kind === 'file_write' || kind === 'file_delete';
const said = (error: unknown) => errorMessage(error).replace(/\.$/, '');
