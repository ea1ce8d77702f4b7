import type { PendingChange } from '../../shapes/pending-change.ts';
import type { WorkReceipt } from '../../shapes/receipt.ts';
import type { Session } from '../../shapes/session.ts';
import type { ReadTool } from '../../tool.ts';
import { toLinesOutput } from './lab-reader.ts';
import { integerSchema, objectSchema } from './schema.ts';

/** Host data for the observe tools. */
export interface ObserveReader {
  /** Rows of the session feed: live ones first, then the newest. */
  sessions(): Promise<readonly Session[]>;
  /** Newest first. */
  receipts(limit: number): Promise<readonly WorkReceipt[]>;
  pending(): Promise<readonly PendingChange[]>;
  /** Response body of GET /host/v1/telemetry. */
  telemetry(): Promise<unknown>;
  /** Response body of GET /host/v1/health. */
  health(): Promise<unknown>;
}

const limitSchema = objectSchema({ limit: integerSchema(1, 200, 'Rows at most; default 20.') }, []);
const readLimit = ({ limit }: Readonly<Record<string, unknown>>): number =>
  typeof limit === 'number' ? limit : 20;

/** One JSON object per line, without members that are useless to a model. */
const toRowsOutput = (all: readonly object[], limit: number, omittedMembers: readonly string[] = []) => {
  const shown = all.slice(0, limit).map((row) => {
    const kept = Object.entries(row).filter(([name]) => !omittedMembers.includes(name));
    return JSON.stringify(Object.fromEntries(kept));
  });
  const { output, truncated } = toLinesOutput(shown);
  return { ok: true, output, truncated: truncated || all.length > limit };
};

export function observeTools(reader: ObserveReader): ReadTool[] {
  const definitions: Pick<ReadTool, 'name' | 'description' | 'inputSchema' | 'run'>[] = [
    {
      name: 'observe_sessions',
      description: 'What the host does and did: tasks, runs and external sessions, the live ones first.',
      inputSchema: limitSchema,
      run: async (args) => toRowsOutput(await reader.sessions(), readLimit(args)),
    },
    {
      name: 'observe_receipts',
      description: 'Receipts of work that ended, newest first.',
      inputSchema: limitSchema,
      run: async (args) =>
        toRowsOutput(await reader.receipts(readLimit(args)), readLimit(args), [
          'signature',
          'prev_digest',
          'contract',
        ]),
    },
    {
      name: 'observe_pending',
      description: 'Changes that wait for a person to decide.',
      inputSchema: limitSchema,
      run: async (args) => toRowsOutput(await reader.pending(), readLimit(args), ['diff']),
    },
    {
      name: 'observe_telemetry',
      description: 'Work served and tokens measured since the host started.',
      inputSchema: objectSchema({}, []),
      run: async () => toLinesOutput([JSON.stringify(await reader.telemetry())]),
    },
    {
      name: 'observe_health',
      description: 'Whether the host is well, and which model it runs.',
      inputSchema: objectSchema({}, []),
      run: async () => toLinesOutput([JSON.stringify(await reader.health())]),
    },
  ];
  return definitions.map((one) => ({ kind: 'read', source: 'builtin', ...one }));
}
