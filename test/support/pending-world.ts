import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import { systemClock } from '../../src/agent/clock.ts';
import { AgentError } from '../../src/agent/errors.ts';
import { ActJournal } from '../../src/agent/pending/act-journal.ts';
import { PendingChanges } from '../../src/agent/pending/pending-changes.ts';
import { StoredSignals } from '../../src/agent/signals.ts';
import type { ChangeTool, Proposal, Tool, ToolContext } from '../../src/agent/tool.ts';
import { pendingRoutes } from '../../src/planes/agent/pending-routes.ts';
import { Store } from '../../src/store/index.ts';

const sha256 = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`;
export const hashAt = (path: string) => (existsSync(path) ? sha256(readFileSync(path, 'utf8')) : 'absent');

interface Payload {
  readonly path: string;
  readonly base: string;
  readonly contents: string;
}

/** Writes files like a real tool, and can be made to fail. */
export class FakeTool implements ChangeTool {
  readonly kind = 'change';
  readonly description = 'Writes.';
  readonly source = 'builtin';
  readonly inputSchema = {};
  readonly name: string;
  applied = 0;
  unavailableReason: string | undefined;
  /** Instead of writing. */
  apply: ChangeTool['apply'] = (payload) => Promise.resolve(this.write(payload as Payload));
  verify?: NonNullable<ChangeTool['verify']>;

  constructor(name: string) {
    this.name = name;
  }

  readonly unavailable = () => this.unavailableReason;

  propose(): Promise<Proposal> {
    throw new Error('not expected in this test');
  }

  write({ path, base, contents }: Payload) {
    const currentHash = hashAt(path);
    if (currentHash !== base)
      throw new AgentError(
        'conflict',
        'base_moved',
        `${path} changed: it was ${base} and is ${currentHash}.`,
      );
    this.applied++;
    writeFileSync(path, contents);
    return { ok: true, output: `wrote ${contents}`, truncated: false };
  }
}

export const fileProposal = (path: string, contents: string): Proposal => ({
  kind: 'file_write',
  intent: 'to have it',
  summary: `Write ${path}`,
  path,
  diff: `--- a\n+++ b\n@@ -0,0 +1 @@\n+${contents}\n`,
  baseHash: hashAt(path),
  risk: 'low',
  payload: { path, base: hashAt(path), contents },
});

export const execProposal = (): Proposal => ({
  kind: 'exec',
  intent: 'to run it',
  summary: 'Run make',
  risk: 'high',
  payload: { command: 'make' },
});

export const context = (overrides: Partial<ToolContext> = {}): ToolContext => ({
  agent: 'helper',
  taskId: 't1',
  sessionId: 's0-1',
  grants: { tools: [], read: [], write: [], network: [], auto_approve: [] },
  cwd: undefined,
  signal: new AbortController().signal,
  ...overrides,
});

/** Leaves a staged change as a host that is killed in the middle of an approval does. */
export async function leaveApplying(store: Store, id: string): Promise<void> {
  const decisionColumns = { applier: store.endpointId, decided_by: 'operator', decided_at: store.time() };
  const { numUpdatedRows } = await store.transaction((tx) =>
    tx
      .updateTable('pending')
      .set({ state: 'applying', ...decisionColumns })
      .where('id', '=', id)
      .executeTakeFirst(),
  );
  if (numUpdatedRows !== 1n) throw new Error(`there is no ${id}`);
}

interface HostOptions {
  readonly endpointId?: string;
  readonly tools?: readonly Tool[];
  /** Finds tools that come and go; default: those of `tools`. */
  readonly findTool?: (name: string) => Tool | undefined;
  readonly now?: () => Date;
  readonly lifetimeMs?: number;
  /** What the changes get for their store. */
  readonly wrapStore?: (store: Store) => Store;
}

/** Hosts over one database: opened as often as a test likes, closed after it. */
export function pendingHosts() {
  const open: Store[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((store) => store.close()));
  });
  const folder = mkdtempSync(join(tmpdir(), 'lathe-pending-'));
  let files = 0;
  return {
    file: () => join(folder, `file${files++}`),
    host: async (url: string, options: HostOptions = {}) => {
      const {
        endpointId = 'host-a',
        tools = [],
        findTool,
        now,
        lifetimeMs,
        wrapStore = (store) => store,
      } = options;
      const store = await Store.open({ url, endpointId, ...(now ? { now } : {}) });
      open.push(store);
      const stop = new AbortController();
      const changes = new PendingChanges({
        store: wrapStore(store),
        signals: new StoredSignals(store),
        tools: { find: findTool ?? ((name) => tools.find((tool) => tool.name === name)) },
        clock: systemClock,
        stopping: stop.signal,
        pollMs: 20,
        ...(lifetimeMs === undefined ? {} : { lifetimeMs }),
      });
      await changes.sweep();
      const acts = new ActJournal(store);
      return { store, changes, acts, stop, routes: pendingRoutes({ changes, acts }) };
    },
  };
}
