/** Plans sampling and log probabilities, which run after the logits. */
import { chooseLogprobs, logprobs } from '../../kernels/logprobs.ts';
import { chooseSamplePick, sampleAdjust, sampledLogits, samplePick } from '../../kernels/sample.ts';
import type { PlanContext } from './plan-context.ts';
import { always, dispatchOf, type Planned } from './plan-dispatch.ts';

interface Node {
  readonly id: string;
}

/** Applies bias, penalties and masks. */
export function planAdjust(context: PlanContext, { id }: Node): Promise<Planned> {
  const { bias, seen, masks, buffers } = context.memory;
  return dispatchOf(
    context,
    `${id}.adjust`,
    always(sampleAdjust, { WG: 64 }),
    { vocabulary: context.graph.shape.vocabulary },
    { bias, seen, masks, logits: buffers.logits },
    'samples',
  );
}

export function planDraw(context: PlanContext, { id }: Node): Promise<Planned> {
  const { seen, sampled, results, buffers } = context.memory;
  return dispatchOf(
    context,
    id,
    always(samplePick, chooseSamplePick(context.gpu.caps)),
    { vocabulary: context.graph.shape.vocabulary, rules: 2, levels: 4 },
    { logits: buffers.logits, seen, sampled, results },
    'samples',
  );
}

/** Plans log probabilities of the unmodified logits, or of the distribution that tokens were sampled from. */
export async function planLogprobs(context: PlanContext, { id }: Node): Promise<Planned[]> {
  const { rawLogits, results, buffers, logprobs: to } = context.memory;
  const { vocabulary } = context.graph.shape;
  const drawnBy = dispatchOf(
    context,
    `${id}.sampled_logits`,
    always(sampledLogits, chooseSamplePick(context.gpu.caps)),
    { vocabulary, rules: 2, levels: 4 },
    { logits: buffers.logits, results, raw: rawLogits },
    'samples',
  );
  const reported = dispatchOf(
    context,
    `${id}.logprobs`,
    always(logprobs, chooseLogprobs(context.gpu.caps)),
    { vocabulary },
    { logits: rawLogits, results, logprobs: to },
    'samples',
  );
  return [await drawnBy, await reported];
}
