/** lathe-bench: its tasks, sizes, scores and submissions. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { tasksText, writeTasks } from '../../bench/wgsl/init.ts';
import { rooflineMs, speedUp, summarize } from '../../bench/wgsl/score.ts';
import { readSubmissions } from '../../bench/wgsl/submissions.ts';
import { hiddenSizes, kernelTasks, layerTask, workOf } from '../../bench/wgsl/tasks.ts';
import { labOps } from '../../src/lab/ops/index.ts';
import { nodePlatform } from '../../src/platform/node.ts';

const root = mkdtempSync(join(tmpdir(), 'lathe-bench-'));
afterAll(() => rmSync(root, { recursive: true }));
const wgsl = await nodePlatform().wgsl();

describe('tasks', () => {
  it('are 24 on three levels, with unique names', () => {
    const tasks = [...kernelTasks, layerTask];
    expect(tasks.length).toBe(24);
    expect(new Set(tasks.map(({ id }) => id)).size).toBe(24);
    expect(new Set(tasks.map(({ level }) => level))).toEqual(new Set([1, 2, 3]));
  });

  it('have hidden sizes that differ by seed, near the published one, and in whole blocks', () => {
    for (const task of kernelTasks) {
      const sizes = [1, 2, 3].flatMap((seed) => hiddenSizes(task, seed, 3));
      expect(hiddenSizes(task, 1, 3)).toEqual(sizes.slice(0, 3));
      if (Object.keys(task.varies).length > 0)
        expect(new Set(sizes.map((one) => JSON.stringify(one))).size).toBeGreaterThan(1);
      for (const size of sizes) {
        expect(Object.keys(size)).toEqual(Object.keys(task.dims));
        for (const [name, value] of Object.entries(size)) {
          const published = task.dims[name] as number;
          const multiple = task.varies[name] ?? published;
          expect(value % multiple, `${task.id} ${name}`).toBe(0);
          expect(Math.abs(value - published), `${task.id} ${name}`).toBeLessThanOrEqual(
            0.25 * published + multiple,
          );
        }
      }
    }
  });

  it('have cases of exactly their size, and work from the contract', () => {
    for (const { id, op, format, dims } of kernelTasks) {
      // Smaller, so that weights are soon drawn.
      const small = Object.fromEntries(
        Object.entries(dims).map(([name, value]) => [
          name,
          name === 'vocabulary'
            ? 320
            : ['rows', 'columns', 'context'].includes(name)
              ? Math.min(value, 512)
              : value,
        ]),
      );
      const one = labOps.get(op)?.sizedCase({ seed: 5, dims: small, format });
      for (const [name, value] of Object.entries(small)) {
        if (name === 'context' || (name === 'columns' && one?.dims['columns'] === undefined)) continue;
        expect(one?.dims[name], `${id} ${name}`).toBe(value);
      }
      const { flops, bytes } = workOf(op, one?.dims ?? {}, format);
      expect(flops, id).toBeGreaterThanOrEqual(0);
      expect(bytes, id).toBeGreaterThan(0);
    }
    // Two operations for a weight, 148 bytes for 256 of them (144 in a file), and the activations.
    expect(workOf('matvec', { tokens: 1, rows: 4096, columns: 4096 }, 'q4_k')).toEqual({
      flops: 2 * 4096 * 4096,
      bytes: 4096 * 16 * 148 + 4 * 2 * 4096,
    });
  });
});

describe('scores', () => {
  it('have the roof of bandwidth or of arithmetic', () => {
    const peaks = { gbps: 100, cachedGbps: 200, gflops: 1000, dispatchMs: 0 };
    expect(rooflineMs({ flops: 0, bytes: 1e8 }, peaks)).toBeCloseTo(1);
    expect(rooflineMs({ flops: 4e9, bytes: 1e8 }, peaks)).toBeCloseTo(4);
  });

  it('compare times of the same round', () => {
    expect(speedUp([1, 2, 4], [3, 6, 12])).toBe(3);
  });

  it('count a wrong kernel as the baseline, and not as correct', () => {
    const summary = summarize([{ speedUp: 4 }, { speedUp: 0.5 }, {}, { speedUp: 2 }]);
    expect(summary).toMatchObject({ tasks: 4, correct: 3, fast: { 1: 0.5, 2: 0.5, 5: 0 } });
    expect(summary.speedUp).toBeCloseTo(4 ** 0.25);
  });
});

describe('submissions', () => {
  it('may be what --init writes', () => {
    const folder = join(root, 'start');
    writeTasks(folder, wgsl);
    const { kernels, layer } = readSubmissions(folder);
    expect([...kernels.keys()].sort()).toEqual(kernelTasks.map(({ id }) => id).sort());
    expect(layer).toEqual([]);
    for (const { id, op, format } of kernelTasks)
      expect(kernels.get(id)).toMatchObject({ op, ...(format === undefined ? {} : { dtypes: [format] }) });
    expect(readFileSync(join(folder, 'TASKS.md'), 'utf8')).toBe(tasksText());
    expect(() => writeTasks(folder, wgsl)).toThrow('expected a new or empty folder');
  });

  it('name every fault of every file', () => {
    const folder = join(root, 'faulty');
    mkdirSync(join(folder, 'layer'), { recursive: true });
    writeFileSync(join(folder, 'matvec-q9.wgsl'), '');
    writeFileSync(join(folder, 'norm-decode.wgsl'), '//! op: matvec\n//! dispatch: tokens\nfn main() {}\n');
    writeFileSync(join(folder, 'gate.wgsl'), '//! dispatch: 1\n//! override WG = a\nfn main() {}\n');
    writeFileSync(
      join(folder, 'layer', 'norm.wgsl'),
      '//! op: rms_norm\n//! dispatch: tokens\nfn main() {}\n',
    );
    let message = '';
    try {
      readSubmissions(folder);
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message.split('\n').length).toBe(readdirSync(folder).length);
    expect(message).toContain('matvec-q9.wgsl: expected the name of a task (norm-decode,');
    expect(message).toContain("norm-decode.wgsl: op: expected rms_norm, got 'matvec'");
    expect(message).toMatch(/gate\.wgsl: .*override: expected a number for WG, got 'a'/);
    expect(message).toContain("layer/norm.wgsl: it needs a directive '//! bind: GLOB'");
    expect(() => readSubmissions(join(root, 'absent'))).toThrow('--kernels: there is no folder');
    mkdirSync(join(root, 'empty'));
    expect(() => readSubmissions(join(root, 'empty'))).toThrow('has no file TASK.wgsl');
  });
});
