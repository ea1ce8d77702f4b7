/** Encodes the GPU work of a step: buffer copies and compute passes. */
import type { StepDims } from '../../../kernels/define.ts';
import type { StateCopy } from '../memory/retained-states.ts';
import type { PageCopy } from '../memory/kv-cache.ts';
import type { Memory } from '../memory/memory.ts';
import type { Dispatch } from './plan-context.ts';
import { encodePlan, type Plan } from './plan.ts';
import type { StepInput } from './step.ts';

type StepParts = readonly Dispatch['part'][];
export const wholeStep: StepParts = ['forward', 'sampling'];
export const forwardPart: StepParts = ['forward'];
export const samplingPart: StepParts = ['sampling'];
const singlePass = [undefined];

/**
 * Encodes parts of a plan. When log probabilities are requested, the logits are copied between the forward and
 * sampling parts, because sampling modifies them.
 */
export function encodeParts(
  encoder: GPUCommandEncoder,
  { buffers, rawLogits, strides }: Memory,
  plan: Plan,
  dims: StepDims,
  parts: StepParts,
): void {
  for (const part of parts.length > 1 && !dims.needsLogprobs ? singlePass : parts) {
    if (part === 'sampling' && dims.needsLogprobs)
      encoder.copyBufferToBuffer(buffers.logits, 0, rawLogits, 0, dims.samples * strides.logits * 4);
    const pass = encoder.beginComputePass();
    encodePlan(pass, plan, dims, part);
    pass.end();
  }
}

/** Encodes the copies that must run before the step's compute pass. */
export function encodeCopies(
  encoder: GPUCommandEncoder,
  memory: Memory,
  { pageCopies, stateCopies }: Pick<StepInput, 'pageCopies' | 'stateCopies'>,
): void {
  for (const copy of pageCopies) copyPage(encoder, memory, copy);
  for (const copy of stateCopies) copyState(encoder, memory, copy);
}

/** Copies the keys and values of every layer from one page to another. */
function copyPage(encoder: GPUCommandEncoder, { caches, pageCopy }: Memory, { from, to }: PageCopy): void {
  const buffers = caches.flatMap((cache) =>
    cache.kind === 'pages' ? [cache.k, cache.v].map((buffer) => ({ buffer, bytes: cache.pageBytes })) : [],
  );
  let at = 0;
  for (const { buffer, bytes } of buffers) {
    encoder.copyBufferToBuffer(buffer, from * bytes, pageCopy, at, bytes);
    at += bytes;
  }
  at = 0;
  for (const { buffer, bytes } of buffers) {
    encoder.copyBufferToBuffer(pageCopy, at, buffer, to * bytes, bytes);
    at += bytes;
  }
}

/** Copies the states of all layers from a slot to a retained copy, or back. */
function copyState(
  encoder: GPUCommandEncoder,
  { caches }: Memory,
  { kind, slot, retainedIndex }: StateCopy,
): void {
  for (const cache of caches) {
    if (cache.kind !== 'state') continue;
    const { live, retained, bytes } = cache;
    if (kind === 'save')
      encoder.copyBufferToBuffer(live, slot * bytes, retained, retainedIndex * bytes, bytes);
    else encoder.copyBufferToBuffer(retained, retainedIndex * bytes, live, slot * bytes, bytes);
  }
}
