import {
  bucketParameter,
  sinceParameter,
  textParameter,
  defineQuestion,
  sinceCondition,
  definedConditions,
} from './question.ts';

export const kernelVerdicts = defineQuestion('kernel_verdicts', {
  description: 'Verdicts on kernels by period: how many passed, and the largest deviations.',
  parameters: {
    since: sinceParameter('-30d'),
    by: bucketParameter('day'),
    kernel: textParameter('Only this kernel.'),
    source: textParameter('gate: verdicts on single kernels; run: parity runs of the whole graph.'),
  },
  query: (parameters) => ({
    surface: 'parity',
    where: definedConditions(
      sinceCondition('at', parameters.since),
      { column: 'kernel', op: 'eq', value: parameters.kernel },
      { column: 'source', op: 'eq', value: parameters.source },
    ),
    group_by: [{ column: 'at', bucket: parameters.by }, 'kernel', 'ok', 'failed_stage'],
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

export const kernelBenches = defineQuestion('kernel_benches', {
  description: 'Measured speedups and slowdowns of kernels, newest first.',
  parameters: {
    since: sinceParameter('-30d'),
    model: textParameter('Only this model.'),
    kernels: textParameter('Only these kernels, written as in the column kernels.'),
  },
  query: (parameters) => ({
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
    where: definedConditions(
      sinceCondition('at', parameters.since),
      { column: 'model', op: 'eq', value: parameters.model },
      { column: 'kernels', op: 'eq', value: parameters.kernels },
    ),
  }),
});
