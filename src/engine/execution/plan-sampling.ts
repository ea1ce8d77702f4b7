/** Plans sampling and log probabilities, which run after the logits. */
import { chooseLogprobs, logprobs } from '../../../kernels/logprobs.ts';
import { chooseSamplePick, sampleAdjust, sampledLogits, samplePick } from '../../../kernels/sample.ts';
import type { PlanContext } from './plan-context.ts';
import { singleOption, planDispatch, type PlannedDispatch } from './plan-dispatch.ts';

interface SampleNode {
  readonly id: string;
}

/** Applies bias, penalties and masks. */
export function planAdjust(context: PlanContext, { id }: SampleNode): Promise<PlannedDispatch> {
  const { bias, tokenCounts: seen, masks, buffers } = context.memory;
  return planDispatch(
    context,
    `${id}.adjust`,
    singleOption(sampleAdjust, { WG: 64 }),
    { vocabulary: context.graph.shape.vocabulary },
    { bias, seen, masks, logits: buffers.logits },
    'samples',
  );
}

export function planSample(context: PlanContext, { id }: SampleNode): Promise<PlannedDispatch> {
  const { tokenCounts: seen, sampled, results, buffers } = context.memory;
  return planDispatch(
    context,
    id,
    singleOption(samplePick, chooseSamplePick(context.gpu.caps)),
    { vocabulary: context.graph.shape.vocabulary, rules: 2, levels: 4 },
    { logits: buffers.logits, seen, sampled, results },
    'samples',
  );
}

/** Plans log probabilities of the unmodified logits, or of the distribution that tokens were sampled from. */
export async function planLogprobs(context: PlanContext, { id }: SampleNode): Promise<PlannedDispatch[]> {
  const { rawLogits, results, buffers, logprobs: logprobsBuffer } = context.memory;
  const { vocabulary } = context.graph.shape;
  const sampledLogitsDispatch = planDispatch(
    context,
    `${id}.sampled_logits`,
    singleOption(sampledLogits, chooseSamplePick(context.gpu.caps)),
    { vocabulary, rules: 2, levels: 4 },
    { logits: buffers.logits, results, raw: rawLogits },
    'samples',
  );
  const logprobsDispatch = planDispatch(
    context,
    `${id}.logprobs`,
    singleOption(logprobs, chooseLogprobs(context.gpu.caps)),
    { vocabulary },
    { logits: rawLogits, results, logprobs: logprobsBuffer },
    'samples',
  );
  return [await sampledLogitsDispatch, await logprobsDispatch];
}
