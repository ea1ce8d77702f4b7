import { by, from, named, question, since, where } from './question.ts';

export const kernelVerdicts = question('kernel_verdicts', {
  description: 'What was said of kernels over time: how many were good, and how far the worst were off.',
  parameters: {
    since: from('-30d'),
    by: by('day'),
    kernel: named('Only of this kernel.'),
    source: named('gate: the verdicts on single kernels; run: those on the whole graph.'),
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
  description: 'What kernels gained or cost when they were measured, the latest first.',
  parameters: {
    since: from('-30d'),
    model: named('Only with this model.'),
    kernels: named('Only of these, as they are written in the answer.'),
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
