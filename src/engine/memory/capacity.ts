import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { adviseQuantization, type MatrixTotals } from './capacity-advice.ts';
import { formatBytes } from '../format-bytes.ts';
import type { Shape } from '../graph/graph.ts';
import { pageBytes, pageBytesPerBinding, stateBytes, workspaceBytes, type Capacity } from './memory.ts';
import { maxStepSamples } from '../execution/step.ts';
import { EngineError } from '../types.ts';

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
  /** See `EngineOptions`. */
  readonly cacheShare?: number;
  readonly keepsContext?: boolean;
  readonly slots: number;
  readonly name: string;
  /** For suggesting a quantization that fits. */
  readonly matrices?: MatrixTotals;
  /** A draft model on the same device. */
  readonly draft?: { readonly shape: Shape; readonly weightBytes: number; readonly name: string };
}

/** Upper limit of the default context: the KV cache of a long-context model would otherwise take all memory. */
const defaultContext = 32768;
/**
 * KV cache budget when the device does not report its memory and the user named no context. It is an estimate, so
 * nothing is refused because of it.
 */
const assumedCacheBytes = 4 * 2 ** 30;
/** The same for retained layer states. */
const assumedStateBytes = 2 ** 29;

/**
 * Chooses the context and the number of KV pages: a context that fits, and pages for as many full sequences as fit,
 * at least one; or as many pages as `kvCacheBytes` holds.
 * @throws EngineError `model_too_large` with needed and available sizes, before anything is loaded
 */
export function chooseCapacity(request: CapacityRequest): Capacity {
  const { shape, slots, weightBytes, memoryBytes, kvCacheBytes } = request;
  // The draft model needs a page for each page of the target model.
  const bytesPerPage = pageBytes(shape) + (request.draft ? pageBytes(request.draft.shape) : 0);
  const budgetPages = kvCacheBytes === undefined ? undefined : Math.floor(kvCacheBytes / bytesPerPage);
  requireTrainedContext(request);
  // A software adapter takes seconds for what a GPU does in milliseconds; larger steps would only stall it. A step
  // must still hold one token of every slot, the drafts, and part of a prompt.
  const stepTokens = Math.max(request.software ? 128 : 512, 2 * maxStepSamples(slots));
  const pagesOf = (context: number) => Math.ceil(context / pageTokens);
  if (budgetPages !== undefined && budgetPages < pagesOf(request.context ?? 1)) {
    const minimum = pagesOf(request.context ?? 1) * bytesPerPage;
    throw new EngineError(
      'invalid_request',
      `--kv-cache-bytes ${kvCacheBytes} is less than the ${minimum} bytes that ` +
        `${request.context === undefined ? `a page of ${pageTokens} tokens` : `--context ${request.context}`} takes`,
    );
  }
  // A CPU has too few cores to benefit from splitting attention, and an unsplit decode rounds exactly as a prefill
  // does.
  const splitTokens = request.software ? 4096 : 512;
  const wantedContext =
    request.context ??
    Math.min(shape.trainedContext, defaultContext, (budgetPages ?? Number.POSITIVE_INFINITY) * pageTokens);
  const retained = retainedStatesOf(request);
  const fixedBytes = (context: number) => {
    const sizes = { context, slots, stepTokens, splitTokens };
    return weightBytes + workspaceBytes(shape, { ...sizes, ...retained }) + draftBytes(request, sizes);
  };
  const widestPageBytes = Math.max(
    pageBytesPerBinding(shape),
    request.draft ? pageBytesPerBinding(request.draft.shape) : 0,
  );
  const bindingPages = Math.floor(request.maxBindingBytes / widestPageBytes);

  // An explicit context is used as is or refused; a default context shrinks until it fits.
  const minimum = Math.min(wantedContext, 512);
  // When the memory size is unknown, an explicit size and the minimum context are tried anyway; the device may refuse
  // them.
  const assumedBudgetBytes =
    kvCacheBytes ?? Math.max(assumedCacheBytes, pagesOf(request.context ?? minimum) * bytesPerPage);
  const cacheBudgetBytes = (context: number) =>
    memoryBytes === undefined ? assumedBudgetBytes : memoryBytes - fixedBytes(context);
  let context = wantedContext;
  const fits = () =>
    cacheBudgetBytes(context) >= pagesOf(context) * bytesPerPage && pagesOf(context) <= bindingPages;
  const lacksMemory = () => cacheBudgetBytes(context) < pagesOf(context) * bytesPerPage;
  // Where a smaller context is wanted only because the adapter binds so little, it is used in any case.
  const mayShrink = () => !(request.keepsContext && lacksMemory() && pagesOf(context) <= bindingPages);
  while (!fits() && request.context === undefined && context > minimum && mayShrink())
    context = Math.max(minimum, context >> 1);
  if (pagesOf(context) > bindingPages) {
    const cache = pagesOf(context) * widestPageBytes;
    throw new EngineError(
      'model_too_large',
      `${request.name}: the keys of one layer for ${context} tokens take ${formatBytes(cache)}, ` +
        `the adapter binds at most ${formatBytes(request.maxBindingBytes)} at once; use a smaller --context`,
    );
  }
  if (memoryBytes !== undefined && !fits()) {
    const neededBytes = fixedBytes(context) + pagesOf(context) * bytesPerPage;
    const spareBytes = memoryBytes - (neededBytes - weightBytes);
    const tokens = context;
    const advice = request.matrices
      ? adviseQuantization(request.matrices, { spareBytes, weightBytes })
      : 'use a smaller model or quantization';
    while (context > minimum && !fits()) context = Math.max(minimum, context >> 1);
    const draftNote = request.draft ? ` with the draft model ${request.draft.name}` : '';
    const draftHint = request.draft ? ', or leave out --draft' : '';
    // A default context has already been shrunk as far as possible.
    const contextHint = request.context === undefined || !fits() ? '' : `, or use --context ${context}`;
    throw new EngineError(
      'model_too_large',
      `${request.name}${draftNote} needs ${formatBytes(neededBytes)} (weights ${formatBytes(weightBytes)}, context of ${tokens} tokens), ` +
        `the device offers ${formatBytes(memoryBytes)}: ${formatBytes(neededBytes - memoryBytes)} are missing; ${advice}${contextHint}${draftHint}`,
      { missingBytes: neededBytes - memoryBytes },
    );
  }
  const share = memoryBytes === undefined ? 1 : (request.cacheShare ?? 1);
  const pages = Math.min(
    budgetPages ?? slots * pagesOf(context),
    Math.max(pagesOf(context), Math.floor((cacheBudgetBytes(context) * share) / bytesPerPage)),
    bindingPages,
  );
  return { context, slots, stepTokens, pages, splitTokens, ...retained };
}

/** Bytes of a draft model, apart from its KV pages. */
function draftBytes({ draft }: CapacityRequest, sizes: Omit<Capacity, 'pages'>): number {
  if (!draft) return 0;
  const context = Math.min(sizes.context, draft.shape.trainedContext);
  return draft.weightBytes + workspaceBytes(draft.shape, { ...sizes, context });
}

/** Number of retained layer states: a few for each slot, limited to a small part of the memory. */
function retainedStatesOf({ shape, slots, memoryBytes }: CapacityRequest): Pick<Capacity, 'retainedStates'> {
  const bytes = stateBytes(shape);
  if (bytes === 0) return {};
  const budget = memoryBytes === undefined ? assumedStateBytes : memoryBytes / 32;
  return { retainedStates: Math.min(4 * slots, Math.floor(budget / bytes)) };
}

export function requireTrainedContext({ context, shape, name }: CapacityRequest): void {
  if (context === undefined || context <= shape.trainedContext) return;
  throw new EngineError(
    'invalid_request',
    `--context ${context} is more than the ${shape.trainedContext} tokens ${name} was trained for`,
  );
}
