import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { type CapacityRequest, requireTrainedContext } from './capacity.ts';
import { adviseQuantization } from './capacity-advice.ts';
import { formatBytes } from '../format-bytes.ts';
import type { Embedding } from '../graph/graph.ts';
import { type Capacity, largestBinding, pageBytes, workspaceBytes } from './memory.ts';
import { EngineError } from '../types.ts';

/** Upper limits of the default context: `whole` where a step holds a whole text, `inChunks` where the cache does. */
const defaultContext = { whole: 2048, inChunks: 8192 };
const minContext = 512;

/**
 * Chooses the step size of an embedding model: a step holds the longest text, and keys and values are kept only while
 * a text runs. Where texts may come in chunks, the cache holds the longest text.
 * @throws EngineError `model_too_large` with needed and available sizes, before anything is loaded
 */
export function chooseEmbeddingCapacity(request: CapacityRequest, embedding: Embedding): Capacity {
  requireTrainedContext(request);
  const { shape, name } = request;
  const defaultLimit = embedding.requiresWholeSequence ? defaultContext.whole : defaultContext.inChunks;
  const wantedContext = request.context ?? Math.min(shape.trainedContext, defaultLimit);
  let context = wantedContext;
  let problem = problemOf(request, capacityFor(request, embedding, context));
  // An explicit context is used as is or refused; a default context shrinks until it fits.
  const minimum = Math.min(wantedContext, minContext);
  while (
    problem &&
    request.context === undefined &&
    context > minimum &&
    !(request.keepsContext && problem.missingBytes !== undefined)
  ) {
    context = Math.max(minimum, context >> 1);
    problem = problemOf(request, capacityFor(request, embedding, context));
  }
  if (problem === undefined) return capacityFor(request, embedding, context);
  // Tries one text of one page: if even that does not fit, no setting helps.
  const smallest = capacityFor({ ...request, slots: 1 }, embedding, Math.min(context, pageTokens));
  const hint = problemOf(request, smallest) ? '' : '; or use a smaller --context or --parallel';
  const { text, missingBytes } = problem;
  throw new EngineError('model_too_large', `${name}: texts of ${context} tokens: ${text}${hint}`, {
    missingBytes,
  });
}

function capacityFor(
  { slots, software }: CapacityRequest,
  { requiresWholeSequence: whole }: Embedding,
  context: number,
): Capacity {
  const defaultStepTokens = software ? 128 : 1024;
  const stepTokens = whole ? Math.max(context, defaultStepTokens) : defaultStepTokens;
  // The last page of each text may be almost empty.
  const pages = Math.ceil(stepTokens / pageTokens) + slots + (whole ? 0 : Math.ceil(context / pageTokens));
  return { context, slots, stepTokens, pages };
}

interface CapacityProblem {
  readonly text: string;
  /** Undefined where more memory would not help. */
  readonly missingBytes?: number;
}

/** Why this capacity does not fit; undefined when it does. */
function problemOf(request: CapacityRequest, capacity: Capacity): CapacityProblem | undefined {
  const { shape, weightBytes, memoryBytes, maxBindingBytes, kvCacheBytes, matrices } = request;
  const cache = capacity.pages * pageBytes(shape);
  if (kvCacheBytes !== undefined && cache > kvCacheBytes) {
    return { text: `keys and values take ${cache} bytes, --kv-cache-bytes allows ${kvCacheBytes}` };
  }
  const binding = largestBinding(shape, capacity);
  if (binding > maxBindingBytes) {
    const text = `a buffer takes ${formatBytes(binding)}, the adapter binds at most ${formatBytes(maxBindingBytes)} at once`;
    return { text };
  }
  const needed = weightBytes + workspaceBytes(shape, capacity) + cache;
  if (memoryBytes !== undefined && needed > memoryBytes) {
    const sizes = `${formatBytes(needed)} are needed (weights ${formatBytes(weightBytes)})`;
    const spareBytes = memoryBytes - (needed - weightBytes);
    const advice = matrices ? `; ${adviseQuantization(matrices, { spareBytes, weightBytes })}` : '';
    const missingBytes = needed - memoryBytes;
    const missing = `${formatBytes(missingBytes)} are missing`;
    const text = `${sizes}, the device offers ${formatBytes(memoryBytes)}: ${missing}${advice}`;
    return { text, missingBytes };
  }
  return undefined;
}
