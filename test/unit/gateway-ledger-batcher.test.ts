import { describe, expect, it } from 'vitest';
import { Batcher } from '../../src/gateway/ledger/batcher.ts';

function batcher(isAlone: boolean) {
  const commits: string[][] = [];
  const made = new Batcher<string, string>({
    async commit(operations) {
      commits.push([...operations]);
      return operations.map((operation) => ({ value: `${operation} done` }));
    },
    maxOperations: 3,
    maxWeight: 100,
    weigh: () => 1,
    hasSingleCaller: () => isAlone,
  });
  return { made, commits };
}

describe('commits that are shared', () => {
  it('begin at once when no other operation is expected', async () => {
    const { made, commits } = batcher(true);
    const done = made.submit('a');
    expect(commits).toEqual([['a']]);
    expect(await done).toBe('a done');
  });

  it('include the operations that arrive during a running commit', async () => {
    const { made, commits } = batcher(true);
    await Promise.all(['a', 'b', 'c'].map((operation) => made.submit(operation)));
    expect(commits).toEqual([['a'], ['b', 'c']]);
  });

  it('wait for the operations of the same turn, up to the limit of one commit', async () => {
    const { made, commits } = batcher(false);
    const done = await Promise.all(['a', 'b', 'c', 'd'].map((operation) => made.submit(operation)));
    expect(commits).toEqual([['a', 'b', 'c'], ['d']]);
    expect(done).toEqual(['a done', 'b done', 'c done', 'd done']);
    await made.idle();
  });
});
