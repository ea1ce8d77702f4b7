/** The lab on an embedding model: the graph can be read, but no kernel can be bound. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ResidentEngine } from '../../src/engine/index.ts';
import { describeGraph, describeParts } from '../../src/lab/live/describe.ts';
import { unfusedKernels } from '../../src/lab/live/lab-kernel.ts';
import { LiveModel } from '../../src/lab/live/live-model.ts';
import { openLab } from '../../src/lab/index.ts';
import { testPlatform } from '../support/test-platform.ts';
import { tinyEncoder } from '../support/tiny-encoder.ts';
import { loadFromMemory } from '../support/tiny-model.ts';

let engine: ResidentEngine;
let live: LiveModel;
beforeAll(async () => {
  engine = await loadFromMemory(tinyEncoder({ architecture: 'bert' }));
  const wgsl = await testPlatform().wgsl();
  live = new LiveModel(engine, wgsl, unfusedKernels(wgsl));
});
afterAll(() => engine.close());

describe('the graph of an embedding model', () => {
  it('lists every node with its kernel and its inputs', async () => {
    const { nodes, edges, spans } = await describeGraph('bert', engine.runner, live.targets, new Map());
    expect(nodes.map(({ op }) => op)).toEqual(
      expect.arrayContaining([
        'embed',
        'position_embed',
        'layer_norm',
        'matmul',
        'attention',
        'gelu',
        'pool',
      ]),
    );
    expect(nodes.filter(({ kernel }) => !kernel.startsWith('builtin:'))).toEqual([]);
    expect(spans).toEqual([]);
    // Most of its ops have no contract, so their cost is estimated from the unit.
    const costOf = await live.costFunction();
    for (const { id, flops, bytes } of nodes) {
      expect(bytes, id).toBeGreaterThan(0);
      expect(costOf([id], 0), id).toEqual({ flops, bytes });
    }
    const readers = (from: string) => edges.filter((edge) => edge.from === from).map(({ to }) => to);
    expect(readers('positions')).toEqual(['embed.norm']);
    expect(readers('embed.norm')).toEqual(expect.arrayContaining(['layers.0.attn.q', 'layers.0.attn.v']));
    expect(readers('layers.0.ffn.act')).toEqual(['layers.0.ffn.down']);
    expect(readers('layers.1.ffn.norm')).toEqual(['pool']);
  });

  it('no slot is swappable', async () => {
    const { slots } = await describeParts(engine.runner, live.targets, [], new Set());
    expect(slots.length).toBeGreaterThan(12);
    expect(slots.filter(({ swappable }) => swappable)).toEqual([]);
  });
});

describe('the lab', () => {
  it('rejects bind, parity and bench, with the reason', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'lab-embedding-'));
    const lab = await openLab({
      engine,
      wgsl: await testPlatform().wgsl(),
      dataDir,
      childPath: 'no-child.js',
      adapter: undefined,
      dawn: 'any',
      version: '0',
      toggles: [],
      trustedKeys: [],
      allowUnverified: false,
      onWarning: () => {},
    });
    const { signal } = new AbortController();
    const reason = {
      code: 'not_bindable',
      message: expect.stringMatching(/tiny-bert.*is an embedding model/),
    };
    await expect(lab.bind({ kernel: 'mine', components: ['**'] }, signal)).rejects.toMatchObject(reason);
    await expect(lab.runParity(signal)).rejects.toMatchObject(reason);
    await expect(lab.bench({}, signal)).rejects.toMatchObject(reason);
    await lab.close();
    await rm(dataDir, { recursive: true });
  });
});
