import { describe, expect, it } from 'vitest';
import type { Session } from '../../src/agent/shapes/session.ts';
import type { LabReader } from '../../src/agent/tools/builtin/lab-reader.ts';
import { type Lab, LabError } from '../../src/lab/types.ts';
import { toolWorlds } from '../support/agent-tools.ts';
import { ScriptedLab } from '../support/scripted-lab.ts';

const newWorld = toolWorlds();

async function labWorld() {
  const scripted = new ScriptedLab();
  const lab: Lab = scripted;
  // The host's lab implements the agents' interface.
  const world = await newWorld({ lab: (): LabReader => lab });
  return { scripted, world };
}

describe('lab tools', () => {
  it('show the lab in lines', async () => {
    const { world } = await labWorld();
    const shown = async (tool: string, args: object = {}) => (await world.run(tool, args)).output;
    expect(await shown('lab_graph')).toBe(
      'model scripted: 1 nodes, 1 spans\nlayers.0.norm: rms_norm, builtin:rms-norm, f32 [tokens, 64]\nspan layers.0.qkv: norm_matvec',
    );
    expect(await shown('lab_graph', { nodes: 'layers.1.*' })).toBe('model scripted: 1 nodes, 1 spans');
    expect(await shown('lab_parts')).toBe(
      'kernel fast: rms_norm, accepted, sha256:00\nslot rms_norm: rms_norm, bound builtin:rms-norm, fits fast',
    );
    expect(await shown('lab_parts', { op: 'matvec' })).toBe('[nothing]');
    expect(await shown('lab_ops')).toBe(
      'rms_norm: rms_norm of rows\nmatvec: matvec of rows\nmatmul: matmul of rows',
    );
    expect(JSON.parse(await shown('lab_ops', { op: 'matvec' }))).toMatchObject({
      op: 'matvec',
      summary: 'matvec of rows',
      dispatch: { x: 'ceil(rows / ROWS)' },
    });
    expect(await world.run('lab_ops', { op: 'none' })).toMatchObject({
      ok: false,
      output: 'There is no op "none"; there are rms_norm, matvec, matmul.',
    });
    expect(await shown('lab_stub', { op: 'matvec', target: 'f16' })).toBe('// WGSL');
    expect(await world.run('lab_stub', { op: 'none' })).toMatchObject({ ok: false, output: "no op 'none'" });
    expect((await world.run('lab_configs', {})).ok).toBe(true);
  });

  it('register, compare and measure without changing bindings', async () => {
    const { scripted, world } = await labWorld();
    const kernel = {
      name: 'fast',
      op: 'rms_norm',
      source: '// WGSL',
      dispatch: { x: '1' },
      tunables: { WG: [32, 64] },
      dtypes: ['q8_0'],
    };
    expect(await world.run('lab_register', kernel)).toMatchObject({
      ok: true,
      output: 'fast accepted, sha256:00',
    });
    expect(await world.run('lab_register', { ...kernel, source: 'wrong' })).toMatchObject({
      ok: false,
      output: expect.stringMatching(/^fast rejected/),
    });
    expect(await world.run('lab_register', { ...kernel, op: 'none' })).toMatchObject({
      ok: false,
      output: "op: there is no 'none'; there are rms_norm, matvec, matmul.",
    });
    expect((await world.run('lab_parity', {})).output).toMatch(/^parity /);
    expect(scripted.calls.find(([name]) => name === 'register')?.[1]).toEqual(kernel);
    const plan = { rounds: 2, contexts: [16, 300], seed: 7 };
    expect((await world.run('lab_bench', plan)).output).toMatch(/^verdict faster; decode is 1\.10 to 1\.30/);
    expect(scripted.calls.find(([name]) => name === 'bench')?.[1]).toEqual({ mode: 'quick', ...plan });
    expect(scripted.calls.map(([name]) => name)).not.toContain('bind');
  });

  it('bind only the proposed kernel, and only when applied', async () => {
    const { scripted, world } = await labWorld();
    const proposal = await world.proposed('lab_bind', { kernel: 'fast', components: ['layers.*.norm'] });
    expect(proposal).toMatchObject({
      kind: 'tool_call',
      summary: 'Run layers.*.norm on the kernel fast (accepted).',
      baseHash: 'sha256:00',
      risk: 'medium',
    });
    expect(scripted.calls.map(([name]) => name)).not.toContain('bind');
    expect(await world.apply('lab_bind', proposal)).toMatchObject({
      ok: true,
      output: '1 components run on fast now.',
    });
    expect(scripted.calls.at(-1)).toEqual(['bind', { kernel: 'fast', components: ['layers.*.norm'] }]);
    const stale = { ...proposal, payload: { ...(proposal.payload as object), digest: 'sha256:11' } };
    await expect(world.apply('lab_bind', stale)).rejects.toMatchObject({ code: 'base_moved' });
    for (const args of [{ kernel: 'fast' }, { kernel: 'none', span: 'x' }])
      expect(await world.propose('lab_bind', args)).toMatchObject({ ok: false });
    await world.apply('lab_clear', await world.proposed('lab_clear', {}));
    expect(scripted.calls.at(-1)?.[0]).toBe('unbind');
  });

  it('save what is bound, as it was when that was proposed', async () => {
    const { scripted, world } = await labWorld();
    expect(await world.propose('lab_save', { name: 'mine' })).toMatchObject({
      ok: false,
      output: 'No kernel is bound, so there is nothing to save.',
    });
    await world.apply('lab_bind', await world.proposed('lab_bind', { kernel: 'fast', span: 'x' }));
    const proposal = await world.proposed('lab_save', { name: 'mine' });
    expect(proposal).toMatchObject({
      summary: 'Save the config mine: fast on 1 component.',
      risk: 'low',
    });
    expect(await world.proposed('lab_save', { name: 'fast' })).toMatchObject({
      summary: expect.stringContaining('replaces the one of that name') as string,
      risk: 'medium',
    });
    expect(await world.apply('lab_save', proposal)).toMatchObject({
      ok: true,
      output: 'The config mine is saved and signed.',
    });
    expect(scripted.calls.at(-1)).toEqual(['saveConfig', 'mine']);
    await scripted.unbind();
    await expect(world.apply('lab_save', proposal)).rejects.toMatchObject({ code: 'base_moved' });
  });

  it('return refusals of the lab as outputs, and rethrow other errors', async () => {
    const { scripted, world } = await labWorld();
    scripted.error = new LabError('lab_failed', 'The device was lost.');
    expect(await world.run('lab_graph', {})).toMatchObject({ ok: false, output: 'The device was lost.' });
    scripted.error = new TypeError('a fault of ours');
    await expect(world.run('lab_graph', {})).rejects.toThrow('a fault of ours');
  });
});

describe('observe tools', () => {
  it('show rows as lines, bounded', async () => {
    const session = (index: number): Session => ({
      id: `t${index}`,
      kind: 'task',
      title: 'x'.repeat(200),
      state: 'completed',
      started_at: '2026-01-01T00:00:00.000Z',
      cancellable: false,
    });
    const change = {
      id: 'p1',
      kind: 'file_write' as const,
      tool: 'fs_write',
      agent: 'default',
      intent: 'why',
      summary: 'what',
      diff: 'very long',
      risk: 'low' as const,
      created_at: '2026-01-01T00:00:00.000Z',
      expires_at: '2026-01-02T00:00:00.000Z',
    };
    const limits: number[] = [];
    const world = await newWorld({
      observe: {
        sessions: async () => Array.from({ length: 500 }, (_, index) => session(index)),
        receipts: async (limit) => {
          limits.push(limit);
          return [];
        },
        pending: async () => [change],
        telemetry: async () => ({ measured_completions: 3 }),
        health: async () => ({ model: 'm' }),
      },
    });
    const sessions = await world.run('observe_sessions', { limit: 3 });
    expect(sessions.truncated).toBe(true);
    expect(sessions.output.split('\n').map((line) => (JSON.parse(line) as Session).id)).toEqual([
      't0',
      't1',
      't2',
    ]);
    expect((await world.run('observe_sessions', { limit: 200 })).output.length).toBeLessThan(26_000);
    expect((await world.run('observe_receipts', {})).output).toBe('[nothing]');
    expect(limits).toEqual([20]);
    const pending = await world.run('observe_pending', {});
    expect(pending.output).toContain('"id":"p1"');
    expect(pending.output).not.toContain('very long');
    expect((await world.run('observe_telemetry', {})).output).toBe('{"measured_completions":3}');
    expect((await world.run('observe_health', {})).output).toBe('{"model":"m"}');
  });
});
