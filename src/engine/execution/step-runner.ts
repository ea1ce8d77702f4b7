import { sampleFlags } from '../../../kernels/sample.ts';
import type { Capacity } from '../memory/memory.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { samplingFlagsOf, type StepInput } from './step.ts';

/** The part of `Runner` that the scheduler needs. Calls take effect in order. */
export interface StepRunner {
  readonly memory: { readonly capacity: Capacity };
  readonly graph: { readonly shape: { readonly vocabulary: number; readonly width: number } };
  /** Token ids must be known on the CPU when a step is submitted, so it cannot use tokens that only the GPU knows. */
  readonly needsTokenIds?: boolean;
  /** Names of the lab kernels that steps run. */
  readonly boundKernels?: readonly string[];
  newStep(): StepInput;
  /**
   * Resolves with a token for each sample, followed by log probabilities and by hidden states when any sample requests
   * them.
   */
  submit(step: StepInput): Promise<Uint32Array>;
  /**
   * The same in two parts, the first up to the logits; nothing else may be submitted between them. When `forward`
   * returns a promise, `sample` must be called after it resolves.
   */
  forward(step: StepInput): void | Promise<void>;
  sample(step: StepInput): Promise<Uint32Array>;
  setPages(slot: number, pages: readonly number[], first?: number): void;
  setBias(slot: number, bias: Float32Array<ArrayBuffer>): void;
  setTokenCounts(slot: number, counts: Uint32Array<ArrayBuffer>): void;
  setMask(slot: number, mask: Uint32Array | undefined): void;
}

/** Writes the logit bias and the penalty counts of a sequence to its slot. */
export function uploadSampling(runner: StepRunner, { request, slot, tokens }: Sequence): void {
  const { sampling, prompt } = request;
  const flags = samplingFlagsOf(sampling);
  const { vocabulary } = runner.graph.shape;
  if (flags & sampleFlags.bias) {
    const bias = new Float32Array(vocabulary);
    for (const [id, amount] of sampling.logitBias) bias[id] = amount;
    runner.setBias(slot, bias);
  }
  if (flags & sampleFlags.penalties) {
    const counts = new Uint32Array(vocabulary);
    for (const id of prompt) counts[id] = 0x80000000;
    for (const id of tokens.slice(prompt.length)) counts[id] = (counts[id] ?? 0) + 1;
    runner.setTokenCounts(slot, counts);
  }
}
