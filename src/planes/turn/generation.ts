import type { Engine, FinishReason, GenerateRequest, GenerationEvent, Usage } from '../../engine/index.ts';
import { unlessAborted } from '../abort.ts';
import { toProblem } from '../resident.ts';

/**
 * Runs one generation. Engine refusals become `Problem`s; an aborted signal ends it at once with the signal's reason,
 * also when the device no longer answers. Leaving the loop stops the engine.
 */
export async function* generate(
  engine: Engine,
  request: GenerateRequest,
  signal: AbortSignal,
): AsyncGenerator<GenerationEvent, void, undefined> {
  if (request.maxTokens === 0) {
    yield nothing(request.prompt.length);
    return;
  }
  let iterator: AsyncIterator<GenerationEvent> | undefined;
  try {
    iterator = engine.generate({ ...request, signal })[Symbol.asyncIterator]();
    for (;;) {
      const next = await unlessAborted(iterator.next(), signal);
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    throw toProblem(error);
  } finally {
    iterator?.return?.().catch(() => undefined);
  }
}

const nothing = (promptTokens: number): GenerationEvent => ({
  type: 'end',
  finishReason: 'length',
  usage: { prompt_tokens: promptTokens, completion_tokens: 0, cached_tokens: 0 },
  timings: { queued_ms: 0, prefill_ms: 0, decode_ms: 0 },
});

export interface Answer {
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly usage: Usage;
}

/** Reads a generation to its end. */
export async function collect(events: AsyncIterable<GenerationEvent>): Promise<Answer> {
  const texts: string[] = [];
  for await (const event of events) {
    if (event.type === 'end')
      return { text: texts.join(''), finishReason: event.finishReason, usage: event.usage };
    texts.push(event.text);
  }
  throw new Error('the engine ended a generation without an end event');
}
