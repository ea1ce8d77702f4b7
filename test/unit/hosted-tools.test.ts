import { expect, it } from 'vitest';
import { HostedTools } from '../../src/agent/hosted-tools.ts';
import type { PendingChanges } from '../../src/agent/pending/pending-changes.ts';
import { CountingTool } from '../support/scripted-turns.ts';

it('makes no call for a client that left while the call was stored', async () => {
  const client = new AbortController();
  const discarded: string[] = [];
  const staged = {
    id: 'p1',
    kind: 'tool_call',
    tool: 'count',
    agent: 'POST /v1/responses',
    intent: '',
    summary: 'Count',
    risk: 'low',
    created_at: '2026-01-01T00:00:00Z',
    expires_at: '2026-01-02T00:00:00Z',
  } as const;
  const unexpected = () => Promise.reject(new Error('not expected in this test'));
  const changes: Pick<PendingChanges, 'stage' | 'approve' | 'discard' | 'get' | 'count'> = {
    count: () => Promise.resolve(0),
    stage: () => {
      client.abort(new Error('it left'));
      return Promise.resolve(staged);
    },
    get: () => Promise.resolve({ ...staged, state: 'staged', digest: '', payload: {} }),
    approve: unexpected,
    discard: (id) => {
      discarded.push(id);
      return Promise.resolve({ id, discarded: true });
    },
  };
  const tool = Object.assign(new CountingTool(), {
    propose: () =>
      Promise.resolve({ kind: 'tool_call', intent: '', summary: 'Count', risk: 'low', payload: {} }),
  });
  const tools = new HostedTools({ servers: [], changes });
  await expect(tools.call(tool, '{}', 'me', client.signal)).rejects.toThrow('it left');
  expect(discarded).toEqual(['p1']);
});
