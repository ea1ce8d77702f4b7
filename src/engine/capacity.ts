import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { adviseQuantization, type Matrices } from './capacity-advice.ts';
import { formatBytes } from './format-bytes.ts';
import type { Shape } from './graph.ts';
import { pageBytes, pageBytesPerBinding, stateBytes, workBytes, type Capacity } from './memory.ts';
import { stepSamples } from './step.ts';
import { EngineError } from './types.ts';

export interface CapacityRequest {
  readonly shape: Shape;
  readonly weightBytes: number;
  /** Memory the engine may use; undefined when the device does not report it. */
  readonly memoryBytes: number | undefined;
  readonly maxBindingBytes: number;
  readonly software: boolean;
  /** `--context`. */
  readonly context?: number;
  /** `--kv-cache-bytes`. */
  readonly kvCacheBytes?: number;
  readonly slots: number;
  readonly name: string;
  /** For suggesting a quantization that fits. */
  readonly matrices?: Matrices;
  /** A draft model on the same device. */
  readonly draft?: { readonly shape: Shape; readonly weightBytes: number; readonly name: string };
}

/** Upper limit of the default context: the KV cache of a long-context model would otherwise take all memory. */
const defaultContext = 32768;
/**
 * KV cache budget when the device does not report its memory and the user named no context. It is an estimate, so
 * nothing is refused because of it.
 */
const unknownCacheBytes = 4 * 2 ** 30;
/** The same for retained layer states. */
const unknownStateBytes = 2 ** 29;

/**
 * Chooses the context and the number of KV pages: a context that fits, and pages for as many full sequences as fit,
 * at least one; or as many pages as `kvCacheBytes` holds.
 * @throws EngineError `model_too_large` with needed and available sizes, before anything is loaded
 */
export function chooseCapacity(request: CapacityRequest): Capacity {
  const { shape, slots, weightBytes, memoryBytes, kvCacheBytes } = request;
  // The draft model needs a page for each page of the target model.
  const perPage = pageBytes(shape) + (request.draft ? pageBytes(request.draft.shape) : 0);
  const budgetPages = kvCacheBytes === undefined ? undefined : Math.floor(kvCacheBytes / perPage);
  refuseUntrained(request);
  // A software adapter takes seconds for what a GPU does in milliseconds; larger steps would only stall it. A step
  // must still hold one token of every slot, the drafts, and part of a prompt.
  const stepTokens = Math.max(request.software ? 128 : 512, 2 * stepSamples(slots));
  const pagesOf = (context: number) => Math.ceil(context / pageTokens);
  if (budgetPages !== undefined && budgetPages < pagesOf(request.context ?? 1)) {
    const least = pagesOf(request.context ?? 1) * perPage;
    throw new EngineError(
      'invalid_request',
      `--kv-cache-bytes ${kvCacheBytes} is less than the ${least} bytes that ` +
        `${request.context === undefined ? `a page of ${pageTokens} tokens` : `--context ${request.context}`} takes`,
    );
  }
  // A CPU has too few cores to benefit from splitting attention, and an unsplit decode rounds exactly as a prefill
  // does.
  const splitTokens = request.software ? 4096 : 512;
  const wanted =
    request.context ??
    Math.min(shape.trainedContext, defaultContext, (budgetPages ?? Number.POSITIVE_INFINITY) * pageTokens);
  const kept = keptStatesOf(request);
  const fixed = (context: number) => {
    const sizes = { context, slots, stepTokens, splitTokens };
    return weightBytes + workBytes(shape, { ...sizes, ...kept }) + draftBytes(request, sizes);
  };
  const widestPage = Math.max(
    pageBytesPerBinding(shape),
    request.draft ? pageBytesPerBinding(request.draft.shape) : 0,
  );
  const bindingPages = Math.floor(request.maxBindingBytes / widestPage);

  // An explicit context is used as is or refused; a default context shrinks until it fits.
  const least = Math.min(wanted, 512);
  // When the memory size is unknown, an explicit size and the minimum context are tried anyway; the device may refuse
  // them.
  const unknownBudget =
    kvCacheBytes ?? Math.max(unknownCacheBytes, pagesOf(request.context ?? least) * perPage);
  const cacheBudget = (context: number) =>
    memoryBytes === undefined ? unknownBudget : memoryBytes - fixed(context);
  let context = wanted;
  const fits = () => cacheBudget(context) >= pagesOf(context) * perPage && pagesOf(context) <= bindingPages;
  while (!fits() && request.context === undefined && context > least) context = Math.max(least, context >> 1);
  if (pagesOf(context) > bindingPages) {
    const cache = pagesOf(context) * widestPage;
    throw new EngineError(
      'model_too_large',
      `${request.name}: the keys of one layer for ${context} tokens take ${formatBytes(cache)}, ` +
        `the adapter binds at most ${formatBytes(request.maxBindingBytes)} at once; use a smaller --context`,
    );
  }
  if (memoryBytes !== undefined && !fits()) {
    const needed = fixed(context) + pagesOf(context) * perPage;
    const spare = memoryBytes - (needed - weightBytes);
    const tokens = context;
    const advice = request.matrices
      ? adviseQuantization(request.matrices, { spare, weightBytes })
      : 'use a smaller model or quantization';
    while (context > least && !fits()) context = Math.max(least, context >> 1);
    const beside = request.draft ? ` with the draft model ${request.draft.name}` : '';
    const alone = request.draft ? ', or leave out --draft' : '';
    // A default context has already been shrunk as far as possible.
    const shorter = request.context === undefined || !fits() ? '' : `, or use --context ${context}`;
    throw new EngineError(
      'model_too_large',
      `${request.name}${beside} needs ${formatBytes(needed)} (weights ${formatBytes(weightBytes)}, context of ${tokens} tokens), ` +
        `the device offers ${formatBytes(memoryBytes)}: ${formatBytes(needed - memoryBytes)} are missing; ${advice}${shorter}${alone}`,
    );
  }
  const pages = Math.min(
    budgetPages ?? slots * pagesOf(context),
    Math.floor(cacheBudget(context) / perPage),
    bindingPages,
  );
  return { context, slots, stepTokens, pages, splitTokens, ...kept };
}

/** Bytes of a draft model, apart from its KV pages. */
function draftBytes({ draft }: CapacityRequest, sizes: Omit<Capacity, 'pages'>): number {
  if (!draft) return 0;
  const context = Math.min(sizes.context, draft.shape.trainedContext);
  return draft.weightBytes + workBytes(draft.shape, { ...sizes, context });
}

/** Number of retained layer states: a few for each slot, limited to a small part of the memory. */
function keptStatesOf({ shape, slots, memoryBytes }: CapacityRequest): Pick<Capacity, 'keptStates'> {
  const bytes = stateBytes(shape);
  if (bytes === 0) return {};
  const budget = memoryBytes === undefined ? unknownStateBytes : memoryBytes / 32;
  return { keptStates: Math.min(4 * slots, Math.floor(budget / bytes)) };
}

export function refuseUntrained({ context, shape, name }: CapacityRequest): void {
  if (context === undefined || context <= shape.trainedContext) return;
  throw new EngineError(
    'invalid_request',
    `--context ${context} is more than the ${shape.trainedContext} tokens ${name} was trained for`,
  );
}
