import type { Surface } from '../types.ts';
import { endpoint, flag, integer, ms, number, required, text, time } from './columns.ts';

export const parity: Surface = {
  name: 'parity',
  description: 'What the lab’s gate said of kernels, and parity runs of the whole graph.',
  key: ['id'],
  time: 'at',
  source: { from: 'parity', tables: ['parity'] },
  columns: [
    text('id', 'derived', 'Of the verdict.', required),
    endpoint,
    time('at', 'measured', 'When it was given.', required),
    text('source', 'derived', 'gate or run.', required),
    text('kernel', 'derived', 'The kernel; of a run, those that are bound.', required),
    text('op', 'derived', 'What the kernel computes.'),
    text('digest', 'derived', 'Of the kernel’s source.'),
    text('model', 'derived', 'The resident model.'),
    text('mode', 'derived', 'strict, standard or off.', required),
    flag('ok', 'measured', 'Whether it passed.', required),
    text('failed_stage', 'derived', 'Where it did not.'),
    integer('cases', 'measured', 'Inputs that it was tried with.', { unit: 'cases' }),
    integer('failed_cases', 'measured', 'Those that came out wrong.', { unit: 'cases' }),
    integer('seed', 'derived', 'Of the inputs.'),
    number('nmse', 'measured', 'The worst normalised mean squared error of all cases.'),
    number('max_abs', 'measured', 'The worst absolute difference of all cases.'),
    number('kl', 'measured', 'How far the next-token probabilities are from the reference.', {
      unit: 'nats',
    }),
    number('top1_agreement', 'measured', 'How often the likeliest token is the reference’s.', { unit: '1' }),
    number('elapsed_ms', 'measured', 'How long it took.', ms),
  ],
};

const tps = { unit: 'tokens/s' } as const;

export const bench: Surface = {
  name: 'bench',
  description: 'Benches of bound kernels beside the built-in ones.',
  key: ['id'],
  time: 'at',
  source: { from: 'bench', tables: ['bench'] },
  columns: [
    text('id', 'derived', 'Of the bench.', required),
    endpoint,
    time('at', 'measured', 'When it was over.', required),
    text('model', 'derived', 'The resident model.', required),
    text('kernels', 'derived', 'Those that are bound.', required),
    text('verdict', 'derived', 'What the figures say.', required),
    text('method', 'derived', 'How it was measured.', required),
    text('fingerprint', 'derived', 'Of the machine and the adapter.', required),
    integer('rounds', 'measured', 'How often.', { ...required, unit: 'rounds' }),
    number('baseline_prefill_tps', 'measured', 'Reading, with the built-in kernels.', tps),
    number('baseline_decode_tps', 'measured', 'Writing, with the built-in kernels.', tps),
    number('bound_prefill_tps', 'measured', 'Reading, with the bound kernels.', tps),
    number('bound_decode_tps', 'measured', 'Writing, with the bound kernels.', tps),
    number('ratio_low', 'derived', 'Bound to built-in: the low end of the 95% interval.', { unit: '1' }),
    number('ratio_high', 'derived', 'Bound to built-in: the high end of the 95% interval.', { unit: '1' }),
    number('elapsed_ms', 'measured', 'How long it took.', ms),
  ],
};
