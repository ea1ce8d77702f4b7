import { createHash } from 'node:crypto';
import type { Selectable } from 'kysely';
import type { Tables } from '../../store/index.ts';
import type { PendingChange, PendingChangeDetail } from '../shapes/pending-change.ts';
import type { ToolOutput } from '../tool.ts';

export type PendingRow = Selectable<Tables['pending']>;
export type PendingState = PendingRow['state'];

/** The public form of a row. `payload` is private to the tool. */
export function toPendingChange(
  row: Omit<PendingRow, 'payload' | 'approved_with' | 'call_key'>,
): PendingChange {
  const { id, kind, tool, agent, intent, summary, risk, created_at, expires_at } = row;
  const optional = omitNulls({
    task_id: row.task_id,
    run_id: row.run_id,
    step: row.step,
    path: row.path,
    diff: row.diff,
    base_hash: row.base_hash,
  });
  return { id, kind, tool, ...optional, agent, intent, summary, risk, created_at, expires_at };
}

export function toPendingChangeDetail(row: PendingRow): PendingChangeDetail {
  const output = readOutput(row);
  const decided = omitNulls({ decided_at: row.decided_at, decided_by: row.decided_by });
  return {
    ...toPendingChange(row),
    state: row.state,
    digest: digestOf(row),
    ...decided,
    ...(output ? { output } : {}),
  };
}

export const readOutput = ({ output }: Pick<PendingRow, 'output'>): ToolOutput | undefined =>
  output === null ? undefined : (JSON.parse(output) as ToolOutput);

/** Names what approving a change applies. */
export const digestOf = ({ payload }: Pick<PendingRow, 'payload'>): string =>
  `sha256:${createHash('sha256').update(payload).digest('hex')}`;

/** Output of a failed change. */
export const failedOutput = (reason: string): ToolOutput => ({ ok: false, output: reason, truncated: false });

function omitNulls<Row extends Record<string, string | null>>(row: Row) {
  const nonNull = Object.entries(row).filter(([, value]) => value !== null);
  return Object.fromEntries(nonNull) as { [Column in keyof Row]?: string };
}
