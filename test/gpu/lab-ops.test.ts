import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { formatNames } from '../../kernels/formats.ts';
import { labOps, tolerances } from '../../src/lab/ops/index.ts';
import { renderStub, stubTargets } from '../../src/lab/stubs.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import type { WgslSources } from '../../kernels/assemble.ts';
import { faultsOf, type LabRunner, labRunner } from '../support/lab-runner.ts';

let runner: LabRunner;
let wgsl: WgslSources;
beforeAll(async () => {
  runner = await labRunner();
  wgsl = await nodePlatform().wgsl();
});

const reads = (op: string) => labOps.get(op)?.contract.bindings.some(({ dtype }) => dtype === 'weights');

for (const [op, lab] of labOps) {
  const { contract } = lab;
  const tolerance = tolerances[contract.exactness];
  const formats = reads(op) ? formatNames : ['none'];

  describe(op, () => {
    it.each(formats)(
      'every stub equals the oracle on every case, %s',
      async (format) => {
        const features = [...runner.gpu.device.features] as string[];
        const cases = lab
          .cases({ seed: 7, formats: [format] })
          .map((one) => ({ one, expected: lab.oracle(one) }));
        expect(cases.length).toBeGreaterThan(5);
        for (const target of stubTargets(op, features)) {
          const run = await runner.stub(
            contract,
            renderStub(wgsl, op, target, reads(op) ? format : undefined),
          );
          const faults: string[] = [];
          for (const { one, expected } of cases) {
            faults.push(...faultsOf(contract, one, expected, await run(one, expected), tolerance));
          }
          expect(faults, target).toEqual([]);
        }
      },
      60_000,
    );

    it.each(formats)(
      "the engine's kernels equal the oracle, %s",
      async (format) => {
        const faults: string[] = [];
        for (const one of lab.cases({ seed: 8, formats: [format] })) {
          const steps = lab.builtin(one, runner.gpu.caps);
          if (!steps) continue;
          const expected = lab.oracle(one);
          const got = await runner.builtin(contract, steps, one, expected);
          faults.push(...faultsOf(contract, one, expected, got, tolerance));
        }
        expect(faults).toEqual([]);
      },
      60_000,
    );

    it('plain stubs equal the oracle whatever the seed, and strictly', async () => {
      const format = 'q8_0';
      const run = await runner.stub(contract, renderStub(wgsl, op, 'plain', format));
      const check = async (seed: number, strict: boolean) => {
        for (const one of lab.cases({ seed, formats: [format], strict })) {
          const expected = lab.oracle(one);
          expect(faultsOf(contract, one, expected, await run(one, expected), tolerance)).toEqual([]);
        }
      };
      await check(99, true);
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 0, max: 0xffffffff }), (seed) => check(seed, false)),
        { numRuns: 3 },
      );
    }, 60_000);
  });
}
