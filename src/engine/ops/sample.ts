/** Sampling and log probabilities, which run after the logits. */
import { logprobs as logprobsKernel, logprobWords, maxLikely } from '../../../kernels/logprobs.ts';
import {
  sampleAdjust as adjustKernel,
  sampledLogits,
  samplePick,
  vocabularyThreads,
} from '../../../kernels/sample.ts';
import { optionsOf, planFastest } from '../execution/measured-choice.ts';
import { sampleStep } from '../execution/measured-steps.ts';
import { kernelCaps, type PlanContext } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { SamplingStageUnit } from '../graph/bindings.ts';
import type { UnitBase } from '../graph/graph.ts';
import { requestFlagsOf } from '../execution/step.ts';
import { type BindingSite, type Op, type PlanOp, unitCost } from './op.ts';

export interface SampleUnit extends UnitBase {
  readonly op: 'sample';
}

export const sample: Op<SampleUnit> = {
  hasChoices: true,
  plan: async (context, unit) => [
    await planAdjust(context, unit),
    await planSample(context, unit),
    ...(await planLogprobs(context, unit)),
  ],
  cost: (_, { samples, shape: { vocabulary } }) => unitCost(samples * vocabulary, samples * vocabulary),
  bind: (unit, { node, boundKernel, replace }) =>
    boundKernel
      ? [
          { op: 'sample_adjust', id: node.id, nodes: [node] },
          replace(node, boundKernel, sampleSite),
          { op: 'logprobs', id: node.id, nodes: [node] },
        ]
      : [unit],
};

/** Tensors of a lab kernel of `sample`. */
const sampleSite: BindingSite = {
  inputs({ memory, graph: { shape } }) {
    const dims = { vocabulary: shape.vocabulary };
    return [
      {
        buffers: {
          samples: { buffer: memory.step, offset: memory.layout.samples, size: memory.samplesBytes },
          logits: memory.buffers.logits,
          seen: memory.tokenCounts,
          sampled: memory.sampled,
          results: memory.results,
        },
        params: dims,
        dims,
        rows: 'samples',
      },
    ];
  },
};

export const sampleAdjust: PlanOp<SamplingStageUnit> = {
  plan: planAdjust,
};

export const logprobs: PlanOp<SamplingStageUnit> = { plan: planLogprobs };

interface SampleNode {
  readonly id: string;
}

/** Applies bias, penalties and masks. */
function planAdjust(context: PlanContext, { id }: SampleNode): Promise<PlannedDispatch> {
  const { bias, tokenCounts: seen, masks, buffers } = context.memory;
  return planDispatch(
    context,
    `${id}.adjust`,
    singleOption(adjustKernel, { WG: 64 }),
    { vocabulary: context.graph.shape.vocabulary },
    { bias, seen, masks, logits: buffers.logits },
    'samples',
  );
}

function planSample(context: PlanContext, { id }: SampleNode): Promise<PlannedDispatch> {
  const { tokenCounts: seen, sampled, results, buffers } = context.memory;
  return planFastest(
    context,
    id,
    {
      ...pickChoice(context),
      output: { buffer: results, words: ({ samples }) => samples, exact: true },
    },
    { vocabulary: context.graph.shape.vocabulary, rules: 2, levels: 4 },
    { logits: buffers.logits, seen, sampled, results },
    'samples',
  );
}

/** How many threads share a row when tokens are picked from it. */
const pickChoice = (context: PlanContext) => ({
  subject: `sample of ${context.graph.shape.vocabulary}`,
  steps: [
    sampleStep('greedy', {}),
    sampleStep('top-k and top-p', { temperature: 0.8, topK: 40, topP: 0.95 }),
  ],
  options: optionsOf(samplePick, vocabularyThreads(kernelCaps(context, samplePick.source))),
});

/** Plans log probabilities of the unmodified logits, or of the distribution that tokens were sampled from. */
async function planLogprobs(context: PlanContext, { id }: SampleNode): Promise<PlannedDispatch[]> {
  const { rawLogits, results, buffers, logprobs: logprobsBuffer } = context.memory;
  const { vocabulary } = context.graph.shape;
  const pick = pickChoice(context);
  const picked = context.tuning.variant(
    pick.subject,
    pick.steps.map(({ name }) => name),
    pick.options,
  );
  const sampledLogitsDispatch = planDispatch(
    context,
    `${id}.sampled_logits`,
    // It cuts the logits as sampling does.
    singleOption(sampledLogits, picked.variant as { WG: number }),
    { vocabulary, rules: 2, levels: 4 },
    { logits: buffers.logits, results, raw: rawLogits },
    'samples',
  );
  const logprobsDispatch = planFastest(
    context,
    `${id}.logprobs`,
    {
      subject: `logprobs of ${vocabulary}`,
      steps: [sampleStep('20 tokens', {}, requestFlagsOf({ logprobs: maxLikely }))],
      options: optionsOf(logprobsKernel, vocabularyThreads(kernelCaps(context, logprobsKernel.source))),
      output: { buffer: logprobsBuffer, words: ({ samples }) => samples * logprobWords },
    },
    { vocabulary },
    { logits: rawLogits, results, logprobs: logprobsBuffer },
    'samples',
  );
  return [await sampledLogitsDispatch, await logprobsDispatch];
}
