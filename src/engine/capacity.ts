import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { formatBytes } from './format-bytes.ts';
import type { Shape } from './graph.ts';
import { pageBytes, pageBytesPerBinding, workBytes, type Capacity } from './memory.ts';
import { EngineError } from './types.ts';

export interface CapacityRequest {
  readonly shape: Shape;
  readonly weightBytes: number;
  /** Memory the engine may use; undefined when the device does not tell. */
  readonly memoryBytes: number | undefined;
  readonly maxBindingBytes: number;
  readonly software: boolean;
  /** `--context`. */
  readonly context?: number;
  readonly slots: number;
  readonly name: string;
}

/** Without `--context`, no longer than this: the cache of a long-context model would take all memory. */
const defaultContext = 32768;
/** For the cache when the device does not tell its memory. */
const unknownCacheBytes = 4 * 2 ** 30;

/**
 * Sizes the KV cache: a context that fits, and pages for as many full sequences as fit, at least one.
 * Throws `model_too_large` with both sizes before anything is loaded.
 */
export function chooseCapacity(request: CapacityRequest): Capacity {
  const { shape, slots, weightBytes, memoryBytes } = request;
  if (request.context !== undefined && request.context > shape.trainedContext) {
    throw new EngineError(
      'invalid_request',
      `--context ${request.context} is more than the ${shape.trainedContext} tokens ${request.name} was trained for`,
    );
  }
  // A software adapter takes seconds for what a GPU does in milliseconds; larger steps would only stall it.
  const stepTokens = request.software ? 128 : 512;
  const wanted = request.context ?? Math.min(shape.trainedContext, defaultContext);
  const fixed = (context: number) => weightBytes + workBytes(shape, { context, slots, stepTokens });
  const pagesOf = (context: number) => Math.ceil(context / pageTokens);
  const perPage = pageBytes(shape);
  const bindingPages = Math.floor(request.maxBindingBytes / pageBytesPerBinding(shape));

  const cacheBudget = (context: number) =>
    memoryBytes === undefined ? unknownCacheBytes : memoryBytes - fixed(context);
  let context = wanted;
  const fits = () => cacheBudget(context) >= pagesOf(context) * perPage && pagesOf(context) <= bindingPages;
  // A context the user named is kept or refused; a default one shrinks.
  const least = Math.min(wanted, 512);
  while (!fits() && request.context === undefined && context > least) context = Math.max(least, context >> 1);
  if (pagesOf(context) > bindingPages) {
    const cache = pagesOf(context) * pageBytesPerBinding(shape);
    throw new EngineError(
      'model_too_large',
      `${request.name}: the keys of one layer for ${context} tokens take ${formatBytes(cache)}, ` +
        `the adapter binds at most ${formatBytes(request.maxBindingBytes)} at once; use a smaller --context`,
    );
  }
  if (!fits()) {
    const needed = fixed(context) + pagesOf(context) * perPage;
    const has = memoryBytes === undefined ? unknownCacheBytes + weightBytes : memoryBytes;
    throw new EngineError(
      'model_too_large',
      `${request.name} needs ${formatBytes(needed)} (weights ${formatBytes(weightBytes)}, context of ${context} tokens), ` +
        `the device offers ${formatBytes(has)}; use a smaller model or quantisation, or a smaller --context`,
    );
  }
  const pages = Math.min(slots * pagesOf(context), Math.floor(cacheBudget(context) / perPage), bindingPages);
  return { context, slots, stepTokens, pages };
}
