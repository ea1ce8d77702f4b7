import { by, from, named, question, since, where } from './question.ts';

export const kernelVerdicts = question('kernel_verdicts', {
  description: 'Verdicts on kernels by period: how many passed, and the largest deviations.',
  parameters: {
    since: from('-30d'),
    by: by('day'),
    kernel: named('Only this kernel.'),
    source: named('gate: verdicts on single kernels; run: parity runs of the whole graph.'),
  },
  query: (asked) => ({
    surface: 'parity',
    where: where(
      since('at', asked.since),
      { column: 'kernel', op: 'eq', value: asked.kernel },
      { column: 'source', op: 'eq', value: asked.source },
    ),
    group_by: [{ column: 'at', bucket: asked.by }, 'kernel', 'ok', 'failed_stage'],
    aggregate: [
      { fn: 'count', as: 'verdicts' },
      { fn: 'max', column: 'nmse', as: 'worst_nmse' },
      { fn: 'max', column: 'max_abs', as: 'worst_abs' },
      { fn: 'max', column: 'kl', as: 'worst_kl' },
    ],
    order_by: [
      { column: 'at', direction: 'desc' },
      { column: 'kernel', direction: 'asc' },
    ],
  }),
});

export const kernelBenches = question('kernel_benches', {
  description: 'Measured speedups and slowdowns of kernels, newest first.',
  parameters: {
    since: from('-30d'),
    model: named('Only this model.'),
    kernels: named('Only these kernels, written as in the column kernels.'),
  },
  query: (asked) => ({
    surface: 'bench',
    select: [
      'at',
      'kernels',
      'model',
      'verdict',
      'ratio_low',
      'ratio_high',
      'baseline_decode_tps',
      'bound_decode_tps',
      'baseline_prefill_tps',
      'bound_prefill_tps',
      'rounds',
      'method',
    ],
    where: where(
      since('at', asked.since),
      { column: 'model', op: 'eq', value: asked.model },
      { column: 'kernels', op: 'eq', value: asked.kernels },
    ),
  }),
});
