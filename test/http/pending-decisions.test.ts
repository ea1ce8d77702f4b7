/** Pending changes across hosts, crashes, failures and time: each is applied at most once, and its outcome is recorded. */
import { existsSync, readFileSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import type { PendingChanges } from '../../src/agent/pending/pending-changes.ts';
import { type Store, StoreError } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import { freshDataDir } from '../support/host.ts';
import {
  context,
  execProposal,
  FakeTool,
  fileProposal,
  leaveApplying,
  pendingHosts,
} from '../support/pending-world.ts';
import { rounds } from '../support/tier.ts';

const never = new AbortController().signal;
const codeOf = async (work: Promise<unknown>) =>
  await work.then(
    () => 'done',
    (error: unknown) => (error instanceof AgentError ? error.code : error),
  );
const diskFull = () => Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });

const deletion = (path: string) => ({ ...fileProposal(path, ''), kind: 'file_delete' as const });

describeDatabases('pending changes', (url) => {
  const { host, file } = pendingHosts();

  /** A row that a host left in the middle of being applied. */
  async function crashed(tool: FakeTool, propose: () => ReturnType<typeof fileProposal>, auto = false) {
    const at = await url();
    const { changes, store } = await host(at, { tools: [tool] });
    if (auto) {
      tool.apply = () => new Promise(() => undefined);
      void changes.applyNow(tool, propose(), context());
      await expect.poll(async () => await changes.get('p1').catch(() => undefined)).toBeDefined();
    } else {
      await changes.stage(tool, propose(), context());
      await leaveApplying(store, 'p1');
    }
    return at;
  }

  it('survive a restart, and are applied by the next host as they were staged', async () => {
    const at = await url();
    const path = file();
    const tool = new FakeTool('fs_write');
    const first = await host(at, { tools: [tool] });
    await first.changes.stage(tool, fileProposal(path, 'then'), context());
    await first.store.close();
    const next = await host(at, { tools: [tool] });
    expect(await next.changes.list()).toMatchObject([{ id: 'p1', tool: 'fs_write' }]);
    await next.changes.approve('p1', 'operator', never);
    expect(readFileSync(path, 'utf8')).toBe('then');
  });

  /** Two hosts over one database, with the tools of the same names. */
  async function twoHosts(tool: FakeTool) {
    const at = await url();
    const a = await host(at, { tools: [tool] });
    return { a, b: await host(at, { tools: [tool], endpointId: 'host-b' }) };
  }

  it('are applied once by concurrent approvals, which all succeed', async () => {
    const tool = new FakeTool('fs_write');
    const { changes, acts } = await host(await url(), { tools: [tool] });
    for (let round = 1; round <= 10; round++) {
      await changes.stage(tool, fileProposal(file(), 'x'), context());
      const all = [1, 2, 3, 4].map(() => changes.approve(`p${round}`, 'operator', never));
      expect(await Promise.all(all)).toEqual(all.map(() => ({ id: `p${round}`, applied: true })));
      expect(tool.applied).toBe(round);
    }
    expect((await acts.list(100)).map(({ target }) => target)).toEqual(
      Array.from({ length: 10 }, (_, index) => `p${index + 1}`),
    );
  });

  it('are approved only where they were staged', async () => {
    const [tool, there] = [new FakeTool('fs_write'), new FakeTool('fs_write')];
    const at = await url();
    const a = await host(at, { tools: [tool] });
    const b = await host(at, { tools: [there], endpointId: 'host-b' });
    const path = file();
    await a.changes.stage(tool, fileProposal(path, 'x'), context());
    const refused = await b.changes.approve('p1', 'operator', never).catch((error: unknown) => error);
    expect(refused).toMatchObject({ kind: 'conflict', code: 'staged_elsewhere' });
    expect((refused as AgentError).message).toContain("on host 'host-a'");
    const change = await a.changes.get('p1');
    expect(change).toMatchObject({ state: 'staged' });
    expect(change).not.toHaveProperty('decided_by');
    expect([tool.applied, there.applied, existsSync(path)]).toEqual([0, 0, false]);
    const refusal = { endpoint_id: 'host-b', verb: 'approve', target: 'p1', by: 'operator' };
    expect(await a.acts.list(10)).toMatchObject([
      { ...refusal, outcome: 'refused', reason: 'staged_elsewhere' },
    ]);
    // The change still waits on its own host.
    expect(await codeOf(a.changes.approve('p1', 'operator', never))).toBe('done');
    expect([tool.applied, there.applied]).toEqual([1, 0]);
    // By then it is applied.
    expect(await b.changes.approve('p1', 'local', never)).toEqual({ id: 'p1', applied: true });
    expect([tool.applied, there.applied, (await a.acts.list(10)).length]).toEqual([1, 0, 2]);
  });

  it('are refused on other hosts because of the host, not of its tools', async () => {
    const at = await url();
    const tool = new FakeTool('fs_write');
    const a = await host(at, { tools: [tool] });
    const b = await host(at, { endpointId: 'host-b' });
    await a.changes.stage(tool, fileProposal(file(), 'x'), context());
    expect(await codeOf(b.changes.approve('p1', 'operator', never))).toBe('staged_elsewhere');
  });

  it('can be discarded on any host, and the host that staged them notices', async () => {
    const tool = new FakeTool('fs_write');
    const { a, b } = await twoHosts(tool);
    await a.changes.stage(tool, fileProposal(file(), 'x'), context());
    const waiting = a.changes.decision('p1', never);
    expect(await b.changes.discard('p1', 'operator', 'no')).toEqual({ id: 'p1', discarded: true });
    expect(await waiting).toEqual({ state: 'discarded', note: 'no' });
    expect(await codeOf(a.changes.approve('p1', 'operator', never))).toBe('already_discarded');
    expect(tool.applied).toBe(0);
    expect(await a.acts.list(10)).toMatchObject([
      { endpoint_id: 'host-b', verb: 'discard', outcome: 'applied', note: 'no' },
      { endpoint_id: 'host-a', verb: 'approve', outcome: 'refused', reason: 'already_discarded' },
    ]);
  });

  it('are either applied or discarded by concurrent decisions', async () => {
    const tool = new FakeTool('fs_write');
    const { a, b } = await twoHosts(tool);
    let applied = 0;
    for (let round = 1; round <= 10; round++) {
      const path = file();
      const id = (await a.changes.stage(tool, fileProposal(path, 'x'), context())).id;
      const [yes, no] = await Promise.all([
        codeOf(a.changes.approve(id, 'operator', never)),
        codeOf(b.changes.discard(id, 'local')),
      ]);
      const { state } = await a.changes.get(id);
      if (state === 'applied') applied++;
      expect(existsSync(path)).toBe(state === 'applied');
      expect(state === 'applied' ? yes : no).toBe('done');
      const other = state === 'applied' ? no : yes;
      expect(['already_discarded', 'already_applied', 'being_applied']).toContain(other);
      const decided = (await a.acts.list(1000)).filter(({ target }) => target === id);
      expect(decided.filter(({ outcome }) => outcome === 'applied').map(({ verb }) => verb)).toEqual([
        state === 'applied' ? 'approve' : 'discard',
      ]);
    }
    expect(tool.applied).toBe(applied);
  });

  it('are decided concurrently by several hosts without conflicts', async () => {
    let now = Date.parse('2026-01-01T00:00:00Z');
    const at = await url();
    const tool = new FakeTool('fs_write');
    const options = { tools: [tool], now: () => new Date(now), lifetimeMs: 1000 };
    const hosts = [await host(at, options), await host(at, { ...options, endpointId: 'host-b' })] as const;
    const stage = () => hosts[0].changes.stage(tool, fileProposal(file(), 'x'), context());
    for (let one = 0; one < 20; one++) await stage();
    now += 600;
    const fresh = [];
    for (let one = 0; one < 20; one++) fresh.push((await stage()).id);
    now += 600;
    const done = await Promise.all([
      ...fresh.flatMap((id, index) =>
        index % 2
          ? [1, 2].map(() => codeOf(hosts[0].changes.approve(id, 'operator', never)))
          : hosts.map(({ changes }) => codeOf(changes.discard(id, 'local'))),
      ),
      ...hosts.map(({ changes }) => codeOf(changes.sweep())),
    ]);
    expect(new Set(done)).toEqual(new Set(['done']));
    const verbs = (await hosts[0].acts.list(1000)).map(({ verb }) => verb).sort();
    expect(verbs).toEqual([
      ...Array(10).fill('approve'),
      ...Array(10).fill('discard'),
      ...Array(20).fill('expire'),
    ]);
  });

  it('wait for the host that is applying, and return the same outcome', async () => {
    const tool = new FakeTool('fs_write');
    const going = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    tool.apply = async (payload) => {
      begun.resolve();
      await going.promise;
      return tool.write(payload as never);
    };
    const { a, b } = await twoHosts(tool);
    await a.changes.stage(tool, fileProposal(file(), 'x'), context());
    const first = a.changes.approve('p1', 'operator', never);
    await begun.promise;
    const others = [b, a].map(({ changes }) => changes.approve('p1', 'local', never));
    expect(await codeOf(b.changes.discard('p1', 'local'))).toBe('being_applied');
    const decided = b.changes.decision('p1', never);
    going.resolve();
    expect(await Promise.all([first, ...others])).toHaveLength(3);
    expect(await decided).toEqual({
      state: 'applied',
      output: { ok: true, output: 'wrote x', truncated: false },
    });
    expect([tool.applied, (await b.changes.get('p1')).decided_by]).toEqual([1, 'operator']);
  });

  it('are not taken from another host that is applying them', async () => {
    const tool = new FakeTool('fs_write');
    const at = await crashed(tool, () => fileProposal(file(), 'x'));
    const b = await host(at, { tools: [tool], endpointId: 'host-b' });
    expect(await b.changes.get('p1')).toMatchObject({ state: 'applying' });
    const left = AbortSignal.timeout(100);
    expect(await codeOf(b.changes.approve('p1', 'local', left))).toBe(left.reason);
    expect(tool.applied).toBe(0);
  });

  describe('after a crash in the middle', () => {
    it('are applied when the tool verifies it', async () => {
      const tool = new FakeTool('fs_write');
      const at = await crashed(tool, () => fileProposal(file(), 'x'));
      tool.verify = () => Promise.resolve('applied');
      const { changes, acts } = await host(at, { tools: [tool] });
      expect(await changes.get('p1')).toMatchObject({ state: 'applied', decided_by: 'operator' });
      expect(await acts.list(10)).toMatchObject([
        { verb: 'approve', by: 'operator', outcome: 'applied', details: { recovered: true } },
      ]);
      expect(tool.applied).toBe(0);
    });

    it('are staged again when nothing was done', async () => {
      const tool = new FakeTool('run_command');
      const at = await crashed(tool, execProposal);
      tool.verify = () => Promise.resolve('not_applied');
      const { changes, acts } = await host(at, { tools: [tool] });
      const change = await changes.get('p1');
      expect(change).toMatchObject({ state: 'staged' });
      expect(change).not.toHaveProperty('decided_by');
      expect(await acts.list(10)).toMatchObject([
        { by: 'operator', outcome: 'refused', reason: 'apply_failed' },
      ]);
    });

    it('are staged again when the file still has its base, even without the tool', async () => {
      const path = file();
      writeFileSync(path, 'before');
      const at = await crashed(new FakeTool('fs_write'), () => fileProposal(path, 'x'));
      expect(await (await host(at)).changes.get('p1')).toMatchObject({ state: 'staged' });
    });

    it('are applied when a file to delete is gone', async () => {
      const path = file();
      writeFileSync(path, 'before');
      const at = await crashed(new FakeTool('fs_delete'), () => deletion(path));
      unlinkSync(path);
      expect(await (await host(at)).changes.get('p1')).toMatchObject({ state: 'applied' });
    });

    it.each([
      ['what it was to replace', fileProposal, 'before'],
      ['what it was to hold', fileProposal, 'x'],
      ['nothing', fileProposal, undefined],
      ['nothing, in the place of what was to go', deletion, undefined],
    ])('fail when a link leads to %s', async (_, propose, holds) => {
      const [path, target] = [file(), file()];
      writeFileSync(path, 'before');
      const at = await crashed(new FakeTool('fs_write'), () => propose(path, 'x'));
      unlinkSync(path);
      symlinkSync(target, path);
      if (holds !== undefined) writeFileSync(target, holds);
      expect(await (await host(at)).changes.get('p1')).toMatchObject({ state: 'failed' });
    });

    it('fail when the tool returns unknown, whatever the path shows', async () => {
      const tool = new FakeTool('fs_write');
      const at = await crashed(tool, () => fileProposal(file(), 'x'));
      tool.verify = () => Promise.resolve('unknown');
      const { changes } = await host(at, { tools: [tool] });
      expect(await changes.get('p1')).toMatchObject({ state: 'failed' });
    });

    it.each([
      ['a file that is neither', 'fs_write', undefined],
      ['a command', 'run_command', undefined],
      ['a tool that cannot tell', 'run_command', () => Promise.resolve('unknown' as const)],
      ['a tool that fails to tell', 'run_command', () => Promise.reject(new Error('no'))],
    ])('fail when the outcome is unknown, and never run again: %s', async (_, name, verify) => {
      const tool = new FakeTool(name);
      const path = file();
      const at = await crashed(tool, () => (name === 'fs_write' ? fileProposal(path, 'x') : execProposal()));
      writeFileSync(path, 'half of i');
      if (verify) tool.verify = verify;
      const { changes } = await host(at, { tools: [tool] });
      const change = await changes.get('p1');
      expect(change.state).toBe('failed');
      expect(change.output?.output).toContain('It may have been applied');
      expect(await codeOf(changes.approve('p1', 'operator', never))).toBe('already_failed');
      expect(await changes.decision('p1', never)).toMatchObject({ state: 'failed' });
      expect(tool.applied).toBe(0);
    });

    it('never ask a person about automatically approved changes', async () => {
      const tool = new FakeTool('fs_write');
      const at = await crashed(tool, () => fileProposal(file(), 'x'), true);
      const { changes, acts } = await host(at, { tools: [tool] });
      expect(await changes.list()).toEqual([]);
      expect(await changes.get('p1')).toMatchObject({ state: 'failed', decided_by: 'agent:helper' });
      expect(await acts.list(10)).toMatchObject([
        { verb: 'auto_approve', outcome: 'applied', details: { phase: 'begin' } },
        { verb: 'auto_approve', outcome: 'refused', details: { phase: 'end', recovered: true } },
      ]);
    });
  });

  describe('that cannot be applied', () => {
    async function failing(propose: () => ReturnType<typeof fileProposal>, apply: FakeTool['apply']) {
      const tool = new FakeTool('some_tool');
      tool.apply = apply;
      const { changes, acts } = await host(await url(), { tools: [tool] });
      await changes.stage(tool, propose(), context());
      const refused = await changes.approve('p1', 'operator', never).then(
        () => undefined,
        (error: unknown) => error as AgentError,
      );
      return { tool, changes, acts, refused, state: (await changes.get('p1')).state };
    }

    it('stay staged when the disk is full, and report it', async () => {
      const { refused, state, tool, changes } = await failing(
        () => fileProposal(file(), 'x'),
        () => Promise.reject(diskFull()),
      );
      expect([refused?.kind, refused?.code, state]).toEqual(['conflict', 'apply_failed', 'staged']);
      expect(refused?.message).toContain('no space left on device');
      tool.apply = (payload) => Promise.resolve(tool.write(payload as never));
      expect(await changes.approve('p1', 'operator', never)).toEqual({ id: 'p1', applied: true });
    });

    it('stay staged when a file tool reports a failure', async () => {
      const output = { ok: false, output: 'You may not write there', truncated: false };
      const { refused, state } = await failing(
        () => fileProposal(file(), 'x'),
        () => Promise.resolve(output),
      );
      expect([refused?.code, state]).toEqual(['apply_failed', 'staged']);
      expect(refused?.message).toContain('You may not write there');
    });

    it('are applied when a command ran and failed', async () => {
      const output = { ok: false, output: 'exit 1', truncated: false };
      const { refused, changes } = await failing(execProposal, () => Promise.resolve(output));
      expect(refused).toBeUndefined();
      expect(await changes.get('p1')).toMatchObject({ state: 'applied', output });
    });

    it('fail when a command may have run', async () => {
      const { refused, state, changes } = await failing(execProposal, () =>
        Promise.reject(new Error('lost it')),
      );
      expect([refused?.code, state]).toEqual(['may_have_run', 'failed']);
      expect(await codeOf(changes.approve('p1', 'operator', never))).toBe('already_failed');
    });

    it('fail when the reason of the abort only looks like a refusal', async () => {
      const tool = new FakeTool('run_command');
      const { changes, stop } = await host(await url(), { tools: [tool] });
      tool.apply = (_, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason as Error));
          stop.abort(new AgentError('unavailable', 'stopping', 'the host stops'));
        });
      await changes.stage(tool, execProposal(), context());
      expect(await codeOf(changes.approve('p1', 'operator', never))).toBe('may_have_run');
    });

    it('stay staged when their tool is missing, unavailable, or became a read tool', async () => {
      const tool = new FakeTool('mcp_tool');
      const at = await url();
      const first = await host(at, { tools: [tool] });
      await first.changes.stage(tool, fileProposal(file(), 'x'), context());
      const without = await host(at);
      const error = await without.changes
        .approve('p1', 'operator', never)
        .catch((refused: unknown) => refused);
      expect(error).toMatchObject({ kind: 'conflict', code: 'tool_unavailable' });
      tool.unavailableReason = 'its description changed; pin it again';
      const drifted = await first.changes
        .approve('p1', 'operator', never)
        .catch((refused: unknown) => refused);
      expect((drifted as AgentError).message).toContain(
        'its description changed; pin it again. p1 stays staged',
      );
      expect(await first.changes.list()).toHaveLength(1);
      tool.unavailableReason = undefined;
      expect(await codeOf(first.changes.approve('p1', 'operator', never))).toBe('done');
      expect((await first.acts.list(10)).map(({ reason }) => reason)).toEqual([
        'tool_unavailable',
        'tool_unavailable',
        undefined,
      ]);
    });

    it('are recorded when the database accepts them again', async () => {
      const tool = new FakeTool('run_command');
      let full = false;
      const through = (store: Store) =>
        ({
          endpointId: store.endpointId,
          now: store.now,
          time: () => store.time(),
          read: (work) => store.read(work),
          nextNumber: (tx, counter) => store.nextNumber(tx, counter),
          appendAct: (tx, act) => store.appendAct(tx, act),
          transaction: (work) =>
            full
              ? Promise.reject(new StoreError('storage_full', 'the disk is full'))
              : store.transaction(work),
        }) as Store;
      const { changes } = await host(await url(), { tools: [tool], wrapStore: through });
      tool.apply = () => {
        full = true;
        tool.applied++;
        return Promise.resolve({ ok: true, output: 'ran', truncated: false });
      };
      await changes.stage(tool, execProposal(), context());
      expect(await codeOf(changes.approve('p1', 'operator', never))).toBe('not_recorded');
      // Reading goes on.
      expect(await changes.get('p1')).toMatchObject({ state: 'applying' });
      expect(await changes.list()).toEqual([]);
      full = false;
      expect(await codeOf(changes.approve('p1', 'operator', never))).toBe('done');
      expect(tool.applied).toBe(1);
      expect(await changes.get('p1')).toMatchObject({ state: 'applied', output: { output: 'ran' } });
    });
  });

  describe('that the grants allow', () => {
    it('are journaled before and after, and never listed for approval', async () => {
      const tool = new FakeTool('fs_write');
      const { changes, acts } = await host(await url(), { tools: [tool] });
      let before: unknown;
      tool.apply = async (payload) => {
        before = await acts.list(10);
        expect(await changes.list()).toEqual([]);
        return tool.write(payload as never);
      };
      const path = file();
      expect(await changes.applyNow(tool, fileProposal(path, 'x'), context())).toMatchObject({ ok: true });
      const begin = { verb: 'auto_approve', target: 'p1', by: 'agent:helper', outcome: 'applied' };
      expect(before).toMatchObject([{ ...begin, details: { phase: 'begin', path } }]);
      expect(await acts.list(10)).toMatchObject([begin, { ...begin, details: { phase: 'end', ok: true } }]);
      expect(await changes.get('p1')).toMatchObject({ state: 'applied', decided_by: 'agent:helper' });
    });

    it.each([
      [
        'moved',
        fileProposal,
        () => Promise.reject(new AgentError('conflict', 'base_moved', 'it moved')),
        'it moved',
      ],
      ['full', fileProposal, () => Promise.reject(diskFull()), 'no space left on device'],
      ['lost', execProposal, () => Promise.reject(new Error('lost')), 'It may have been applied'],
    ])('report a failure to the model: %s', async (_, propose, apply, expectedText) => {
      const tool = new FakeTool('some_tool');
      tool.apply = apply;
      const { changes, acts } = await host(await url(), { tools: [tool] });
      const output = await changes.applyNow(tool, propose(file(), 'x'), context());
      expect([output.ok, output.output.includes(expectedText)]).toEqual([false, true]);
      expect(await changes.get('p1')).toMatchObject({ state: 'failed' });
      expect((await acts.list(10)).map(({ outcome }) => outcome)).toEqual(['applied', 'refused']);
    });

    it('are aborted with their task', async () => {
      const tool = new FakeTool('run_command');
      const { changes } = await host(await url(), { tools: [tool] });
      const task = new AbortController();
      tool.apply = (_, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason as Error));
          task.abort(new Error('the time is over'));
        });
      const output = await changes.applyNow(tool, execProposal(), context({ signal: task.signal }));
      expect(output).toMatchObject({
        ok: false,
        output: expect.stringContaining('the time is over') as string,
      });
    });
  });

  describe('expire', () => {
    it('without a decision in time, on all hosts', async () => {
      let now = Date.parse('2026-01-01T00:00:00Z');
      const at = await url();
      const tool = new FakeTool('fs_write');
      const options = { tools: [tool], now: () => new Date(now), lifetimeMs: 1000 };
      const { changes, acts } = await host(at, options);
      for (let one = 0; one < 4; one++) await changes.stage(tool, fileProposal(file(), 'x'), context());
      now += 999;
      await changes.approve('p1', 'operator', never);
      const waiting = changes.decision('p4', never);
      now += 1;
      expect(await changes.list()).toEqual([]);
      expect(await changes.get('p2')).toMatchObject({ state: 'expired' });
      expect(await codeOf(changes.approve('p2', 'operator', never))).toBe('expired');
      expect(await codeOf(changes.discard('p3', 'operator'))).toBe('expired');
      expect(await waiting).toEqual({ state: 'expired' });
      // A wall clock that jumps back brings nothing back.
      now -= 500;
      expect(await codeOf(changes.approve('p2', 'operator', never))).toBe('expired');
      expect(await changes.list()).toEqual([]);
      expect(tool.applied).toBe(1);
      expect(
        (await acts.list(100)).filter(({ verb }) => verb === 'expire').map(({ target }) => target),
      ).toEqual(['p2', 'p3', 'p4']);
    });

    it('in a sweep, even if there are very many', async () => {
      let now = Date.parse('2026-01-01T00:00:00Z');
      const tool = new FakeTool('fs_write');
      const { changes } = await host(await url(), {
        tools: [tool],
        now: () => new Date(now),
        lifetimeMs: 1000,
      });
      for (let one = 0; one < 5; one++) await changes.stage(tool, execProposal(), context());
      now += 2000;
      await changes.sweep();
      expect((await changes.get('p5')).decided_by).toBe('host');
    });
  });

  describe('are waited for', () => {
    it('until they are decided here, or by another host', async () => {
      const tool = new FakeTool('fs_write');
      const { a, b } = await twoHosts(tool);
      await a.changes.stage(tool, fileProposal(file(), 'x'), context());
      await a.changes.stage(tool, fileProposal(file(), 'x'), context());
      const [one, other] = [a.changes.decision('p1', never), a.changes.decision('p2', never)];
      await a.changes.approve('p1', 'operator', never);
      expect(await one).toMatchObject({ state: 'applied', output: { ok: true } });
      await b.changes.discard('p2', 'operator');
      expect(await other).toEqual({ state: 'discarded' });
    });

    it('until the signal is aborted', async () => {
      const tool = new FakeTool('fs_write');
      const { changes } = await host(await url(), { tools: [tool] });
      await changes.stage(tool, fileProposal(file(), 'x'), context());
      const stop = new AbortController();
      const waiting = changes.decision('p1', stop.signal);
      const reason = new Error('enough');
      stop.abort(reason);
      await expect(waiting).rejects.toBe(reason);
      await expect(changes.decision('p1', stop.signal)).rejects.toBe(reason);
      expect(await codeOf(changes.decision('p9', never))).toBe('not_found');
    });
  });

  it('for questions of the host, too, which apply nothing', async () => {
    const { changes, store } = await host(await url());
    const question = { tool: 'approval_gate', agent: 'nightly', runId: 'r1', step: 'publish' } as const;
    const about = { intent: 'The run goes on only with your word.', summary: 'Go on with publish?' };
    await changes.ask({ ...question, ...about });
    await changes.ask({ ...question, ...about, tool: 'rerun_step' });
    expect(await changes.list()).toMatchObject([
      {
        id: 'p1',
        kind: 'tool_call',
        tool: 'approval_gate',
        run_id: 'r1',
        step: 'publish',
        risk: 'low',
        ...about,
      },
      { id: 'p2', tool: 'rerun_step', risk: 'high' },
    ]);
    expect(await changes.approve('p1', 'operator', never)).toEqual({ id: 'p1', applied: true });
    expect(await changes.approve('p1', 'operator', never)).toEqual({ id: 'p1', applied: true });
    expect(await changes.decision('p1', never)).toMatchObject({ state: 'applied' });
    await changes.discard('p2', 'operator', 'no');
    expect(await changes.decision('p2', never)).toEqual({ state: 'discarded', note: 'no' });
    const signals = await store.read((db) =>
      db.selectFrom('signals').select('name').orderBy('seq').execute(),
    );
    expect(signals.map(({ name }) => name)).toEqual([
      'pending.staged',
      'pending.staged',
      'pending.applied',
      'pending.discarded',
    ]);
  });

  it.each(['approval_gate', 'rerun_step'] as const)(
    'are questions that any host answers: %s',
    async (tool) => {
      const { a, b } = await twoHosts(new FakeTool('fs_write'));
      const about = { agent: 'nightly', runId: 'r1', step: 'publish', intent: 'x', summary: 'Go on?' };
      await a.changes.ask({ tool, ...about });
      await a.changes.ask({ tool, ...about });
      const waiting = ['p1', 'p2'].map((id) => a.changes.decision(id, never));
      expect(await b.changes.approve('p1', 'operator', never)).toEqual({ id: 'p1', applied: true });
      await b.changes.discard('p2', 'operator');
      expect(await Promise.all(waiting)).toMatchObject([{ state: 'applied' }, { state: 'discarded' }]);
      expect(await a.acts.list(10)).toMatchObject([
        { endpoint_id: 'host-b', verb: 'approve', target: 'p1', outcome: 'applied' },
        { endpoint_id: 'host-b', verb: 'discard', target: 'p2', outcome: 'applied' },
      ]);
    },
  );
});

describe('pending changes in random situations', () => {
  const { host } = pendingHosts();
  type Step = 'approve' | 'approve_b' | 'discard' | 'fail' | 'lose' | 'restart' | 'both' | 'late';
  const step = fc.constantFrom<Step>(
    'approve',
    'approve_b',
    'discard',
    'fail',
    'lose',
    'restart',
    'both',
    'late',
  );

  it('are applied at most once, exactly when their state says so, with one act', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(step, fc.nat(3)), { maxLength: 12 }), async (steps) => {
        let now = Date.parse('2026-01-01T00:00:00Z');
        const at = `sqlite:${freshDataDir()}/lathe.db`;
        const tool = new FakeTool('run_command');
        const effects = new Map<string, number>();
        let mood: 'well' | 'fail' | 'lose' = 'well';
        tool.apply = (payload) => {
          const id = String((payload as { id: number }).id);
          if (mood === 'fail') throw new AgentError('unavailable', 'sandbox', 'not now');
          effects.set(id, (effects.get(id) ?? 0) + 1);
          if (mood === 'lose') throw new Error('lost');
          return Promise.resolve({ ok: true, output: 'ran', truncated: false });
        };
        const options = { tools: [tool], now: () => new Date(now), lifetimeMs: 50_000 };
        const b = await host(at, { ...options, endpointId: 'host-b' });
        let a = await host(at, options);
        for (let id = 1; id <= 4; id++)
          await a.changes.stage(tool, { ...execProposal(), payload: { id } }, context());
        for (const [what, index] of steps) {
          const id = `p${index + 1}`;
          mood = what === 'fail' || what === 'lose' ? what : 'well';
          now += what === 'late' ? 20_000 : 1;
          if (what === 'restart') a = await host(at, options);
          const approve = (changes: PendingChanges) => codeOf(changes.approve(id, 'operator', never));
          if (what === 'discard' || what === 'both') void codeOf(b.changes.discard(id, 'local'));
          if (what === 'approve_b') {
            const { state } = await a.changes.get(id);
            const before = effects.size;
            const outcome = await approve(b.changes);
            if (state === 'staged') expect(outcome).toBe('staged_elsewhere');
            expect([await a.changes.get(id), effects.size]).toMatchObject([{ state }, before]);
          } else if (what !== 'discard') await approve(a.changes);
          await codeOf(b.changes.decision(id, AbortSignal.timeout(1)));
        }
        await a.changes.whenIdle();
        const acts = await a.acts.list(1000);
        for (let id = 1; id <= 4; id++) {
          const { state } = await a.changes.get(`p${id}`);
          const ran = effects.get(String(id)) ?? 0;
          const decided = acts.filter(
            ({ target, outcome, verb }) => target === `p${id}` && outcome === 'applied' && verb !== 'expire',
          );
          expect(ran).toBe(state === 'applied' || state === 'failed' ? 1 : 0);
          expect(decided.map(({ verb }) => verb)).toEqual(
            state === 'applied' ? ['approve'] : state === 'discarded' ? ['discard'] : [],
          );
        }
      }),
      { numRuns: rounds(60, 20) },
    );
  });
});
