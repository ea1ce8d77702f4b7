import type { PendingChange } from '../../shapes/pending-change.ts';
import type { WorkReceipt } from '../../shapes/receipt.ts';
import type { Session } from '../../shapes/session.ts';
import type { ReadTool } from '../../tool.ts';
import { lines } from './lab-reader.ts';
import { aNumber, anObject } from './schema.ts';

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

const limited = anObject({ limit: aNumber(1, 200, 'Rows at most; default 20.') }, []);
const limitOf = ({ limit }: Readonly<Record<string, unknown>>): number =>
  typeof limit === 'number' ? limit : 20;

/** One JSON object per line, without members that are useless to a model. */
const rows = (all: readonly object[], most: number, without: readonly string[] = []) => {
  const shown = all.slice(0, most).map((row) => {
    const kept = Object.entries(row).filter(([name]) => !without.includes(name));
    return JSON.stringify(Object.fromEntries(kept));
  });
  const { output, truncated } = lines(shown);
  return { ok: true, output, truncated: truncated || all.length > most };
};

export function observeTools(observed: ObserveReader): ReadTool[] {
  const definitions: Pick<ReadTool, 'name' | 'description' | 'inputSchema' | 'run'>[] = [
    {
      name: 'observe_sessions',
      description: 'What the host does and did: tasks, runs and external sessions, the live ones first.',
      inputSchema: limited,
      run: async (args) => rows(await observed.sessions(), limitOf(args)),
    },
    {
      name: 'observe_receipts',
      description: 'Receipts of work that ended, newest first.',
      inputSchema: limited,
      run: async (args) =>
        rows(await observed.receipts(limitOf(args)), limitOf(args), ['signature', 'prev_digest', 'contract']),
    },
    {
      name: 'observe_pending',
      description: 'Changes that wait for a person to decide.',
      inputSchema: limited,
      run: async (args) => rows(await observed.pending(), limitOf(args), ['diff']),
    },
    {
      name: 'observe_telemetry',
      description: 'Work served and tokens measured since the host started.',
      inputSchema: anObject({}, []),
      run: async () => lines([JSON.stringify(await observed.telemetry())]),
    },
    {
      name: 'observe_health',
      description: 'Whether the host is well, and which model it runs.',
      inputSchema: anObject({}, []),
      run: async () => lines([JSON.stringify(await observed.health())]),
    },
  ];
  return definitions.map((one) => ({ kind: 'read', source: 'builtin', ...one }));
}
