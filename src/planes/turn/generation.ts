import type { Engine, GenerateRequest, GenerationEvent } from '../../engine/index.ts';
import { raceAbort } from '../../util/race-abort.ts';
import { toHttpError } from '../resident.ts';

/**
 * Runs one generation. Engine refusals become `HttpError`s. An aborted signal ends it at once with the signal's reason,
 * even when the device no longer responds. Leaving the loop stops the engine. The constraint is always closed: by the
 * engine, or here where the engine did not accept the request.
 */
export async function* generate(
  engine: Engine,
  request: GenerateRequest,
  signal: AbortSignal,
): AsyncGenerator<GenerationEvent, void, undefined> {
  if (request.maxTokens === 0 && !request.promptLogprobs) {
    request.constraint?.close();
    yield emptyGenerationEnd(request.prompt.length);
    return;
  }
  let iterator: AsyncIterator<GenerationEvent> | undefined;
  try {
    iterator = engine.generate({ ...request, signal })[Symbol.asyncIterator]();
    for (;;) {
      const next = await raceAbort(iterator.next(), signal);
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    throw toHttpError(error);
  } finally {
    if (!iterator) request.constraint?.close();
    iterator?.return?.().catch(() => undefined);
  }
}

const emptyGenerationEnd = (promptTokens: number): GenerationEvent => ({
  type: 'end',
  finishReason: 'length',
  usage: { prompt_tokens: promptTokens, completion_tokens: 0, cached_tokens: 0 },
  timings: { queued_ms: 0, prefill_ms: 0, decode_ms: 0 },
});
