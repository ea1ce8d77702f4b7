import { expect, it } from 'vitest';
import { truncateWeights } from '../../src/lab/live/shrink.ts';
import { labOps } from '../../src/lab/ops/index.ts';
import type { ParityCase } from '../../src/lab/types.ts';

const caseOf = (op: string, format: string): ParityCase => {
  const cases = labOps.get(op)?.cases({ seed: 1, formats: [format] }) ?? [];
  const found = cases.find(({ dims }) => (dims['rows'] ?? 0) % 2 === 0 && (dims['rows'] ?? 0) >= 8);
  if (!found) throw new Error(`no case of ${op}`);
  return found;
};

for (const op of ['matmul', 'matmul_add', 'gated_matmul', 'norm_matmul']) {
  for (const format of ['q8_0', 'q4_0', 'f16']) {
    it(`fewer rows of ${op} in ${format} give the same elements`, () => {
      const whole = caseOf(op, format);
      const { rows = 0, blocks = 0, tokens = 0 } = whole.dims;
      const gates = op.startsWith('gated') ? 2 : 1;
      const part = truncateWeights(whole, 4 * blocks * 32 * gates);
      expect(part.dims['rows']).toBe(4);
      expect(part.tensors['quants']?.length).toBe(((whole.tensors['quants']?.length ?? 0) / rows) * 4);
      const oracle = labOps.get(op)?.oracle;
      const [all, partial] = [oracle?.(whole)['y']?.values, oracle?.(part)['y']?.values];
      const { y_stride: stride = 0, y_offset: offset = 0 } = whole.params;
      for (let t = 0; t < tokens; t++) {
        for (let r = 0; r < 4; r++) {
          const at = t * stride + offset + r;
          expect(partial?.[at]).toBe(all?.[at]);
        }
      }
    });
  }
}

it('small matrices and other ops are unchanged', () => {
  const small = caseOf('matmul', 'q8_0');
  expect(truncateWeights(small, 1e9)).toBe(small);
  const norm = labOps.get('rms_norm')?.cases({ seed: 1, formats: [] })[0] as ParityCase;
  expect(truncateWeights(norm, 1)).toBe(norm);
});
