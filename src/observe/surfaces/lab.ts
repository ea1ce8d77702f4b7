import type { Surface } from '../types.ts';
import { endpointColumn, flag, integer, ms, number, required, text, time } from './columns.ts';

export const parity: Surface = {
  name: 'parity',
  description: 'Verdicts of the lab’s gate on kernels, and parity runs of the whole graph.',
  key: ['id'],
  time: 'at',
  source: { from: 'parity', tables: ['parity'] },
  columns: [
    text('id', 'derived', 'Id of the verdict.', required),
    endpointColumn,
    time('at', 'measured', 'When the verdict was given.', required),
    text('source', 'derived', 'gate or run.', required),
    text('kernel', 'derived', 'The kernel; for a run, the bound kernels.', required),
    text('op', 'derived', 'Op that the kernel computes.'),
    text('digest', 'derived', 'Digest of the kernel’s source.'),
    text('model', 'derived', 'The resident model.'),
    text('mode', 'derived', 'strict, standard or off.', required),
    flag('ok', 'measured', 'Whether it passed.', required),
    text('failed_stage', 'derived', 'Stage at which it failed.'),
    integer('cases', 'measured', 'Number of test inputs.', { unit: 'cases' }),
    integer('failed_cases', 'measured', 'Number of inputs with wrong results.', { unit: 'cases' }),
    integer('seed', 'derived', 'Seed of the inputs.'),
    number('nmse', 'measured', 'Largest normalized mean squared error of all cases.'),
    number('max_abs', 'measured', 'Largest absolute difference of all cases.'),
    number('kl', 'measured', 'KL divergence of the next-token probabilities from the reference.', {
      unit: 'nats',
    }),
    number(
      'top1_agreement',
      'measured',
      'Share of positions at which the most likely token is the reference’s.',
      { unit: '1' },
    ),
    number('elapsed_ms', 'measured', 'Duration.', ms),
  ],
};

const tps = { unit: 'tokens/s' } as const;

export const bench: Surface = {
  name: 'bench',
  description: 'Benches of bound kernels against the built-in kernels.',
  key: ['id'],
  time: 'at',
  source: { from: 'bench', tables: ['bench'] },
  columns: [
    text('id', 'derived', 'Id of the bench.', required),
    endpointColumn,
    time('at', 'measured', 'When the bench ended.', required),
    text('model', 'derived', 'The resident model.', required),
    text('kernels', 'derived', 'The bound kernels.', required),
    text('verdict', 'derived', 'Conclusion from the measurements.', required),
    text('method', 'derived', 'Measurement method.', required),
    text('fingerprint', 'derived', 'Fingerprint of the machine and the adapter.', required),
    integer('rounds', 'measured', 'Number of rounds.', { ...required, unit: 'rounds' }),
    number('baseline_prefill_tps', 'measured', 'Prefill speed with the built-in kernels.', tps),
    number('baseline_decode_tps', 'measured', 'Decode speed with the built-in kernels.', tps),
    number('bound_prefill_tps', 'measured', 'Prefill speed with the bound kernels.', tps),
    number('bound_decode_tps', 'measured', 'Decode speed with the bound kernels.', tps),
    number('ratio_low', 'derived', 'Ratio of bound to built-in speed: low end of the 95% interval.', {
      unit: '1',
    }),
    number('ratio_high', 'derived', 'Ratio of bound to built-in speed: high end of the 95% interval.', {
      unit: '1',
    }),
    number('elapsed_ms', 'measured', 'Duration.', ms),
  ],
};
