/** The kernels of docs/samples, which docs/write-a-kernel.md explains, pass the gate on this machine's adapter. */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { openGateDevice } from '../../src/lab/gate/open-gate-device.ts';
import type { GateDevice } from '../../src/lab/gate/references.ts';
import { runGate } from '../../src/lab/gate/run-gate.ts';
import { readKernelFlags } from '../../src/lab-tool/kernel-flags.ts';
import { readWgslKernel } from '../../src/lab-tool/local-kernels.ts';

const folder = fileURLToPath(new URL('../../docs/samples/', import.meta.url));
const samples = readdirSync(folder);
const noProgress = { begin() {}, end() {}, phase() {} };

let bench: GateDevice;
beforeAll(async () => {
  bench = await openGateDevice(undefined);
});

describe('docs/samples', () => {
  it('contains kernels', () => {
    expect(samples).toContain('gate_up.wgsl');
  });

  for (const sample of samples) {
    it(`${sample} is accepted unchanged, with all values of its tunables`, async ({ skip }) => {
      const { kernels } = await readWgslKernel(`${folder}${sample}`, readKernelFlags({}));
      const [kernel] = kernels;
      expect(kernel?.faults).toEqual([]);
      if (kernel?.registration === undefined) throw new Error('no kernel');
      const { requires = [], tunables = {}, ...registration } = kernel.registration;
      skip(!requires.every((feature) => bench.gpu.device.features.has(feature)), 'a feature is missing');
      const [[name, values] = ['', [0]]] = Object.entries(tunables);
      for (const value of values) {
        const report = await runGate(
          bench,
          {
            registration: {
              ...registration,
              requires,
              overrides: { ...registration.overrides, ...(name === '' ? {} : { [name]: value }) },
            },
            mode: 'standard',
            toleranceScale: 1,
            seed: 7,
            formats: ['q8_0'],
            live: { byOp: {}, captured: {} },
          },
          noProgress,
        );
        const findings = report.stages.flatMap((stage) => stage.findings);
        // The sample says that it needs subgroups of 8 or more.
        const isStated = (message: string) =>
          message.startsWith('wrong on adapters with subgroups of 4, correct with 8, 16, 32 and 64');
        expect(
          findings.filter(({ message }) => !isStated(message)),
          `${name} = ${value}`,
        ).toEqual([]);
        expect(report.accepted).toBe(true);
        expect(report.parity?.length).toBeGreaterThan(2);
      }
    });
  }
});
