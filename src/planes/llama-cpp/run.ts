import type { AnswerEvent, Timings } from '../../wires/core/answer.ts';
import { contextFull } from '../../wires/llama-cpp/writer.ts';
import { type Answering, generateChoices, type TextRequest } from '../turn/choices.ts';
import { writeLogprobs } from '../turn/logprobs.ts';
import { toTimings } from '../turn/timings.ts';
import type { Watcher } from '../turn/watched.ts';
import { EarlyEnd, type EarlyEnds } from './early-end.ts';

/** One answer to generate. */
export interface Job {
  readonly request: TextRequest;
  readonly ends: EarlyEnds;
  /** Only the prompt is evaluated, for later answers; the engine samples one token that is not returned. */
  readonly promptOnly: boolean;
  /** The token limit is the remaining context, and the request asks for more. */
  readonly fillsContext: boolean;
}

/** Context of an answer. */
interface Place {
  readonly answering: Answering;
  readonly choice: number;
  readonly watcher: Watcher;
  readonly signal: AbortSignal;
}

/** Generates one answer and applies its early stop conditions. */
export async function* run(
  { request, ends, promptOnly, fillsContext }: Job,
  { answering, choice, watcher, signal }: Place,
): AsyncGenerator<AnswerEvent, void, undefined> {
  const { tokenizer } = answering.engine;
  const early = new EarlyEnd(ends);
  const told = (text: string, timings: Timings) => {
    watcher.take({ type: 'text', choice, text });
    return { type: 'text', text, timings } as const;
  };
  for await (const event of generateChoices(answering, { ...request, progress: true }, signal)) {
    const timings = event.measured?.timings as Timings;
    if (event.type === 'prompt') {
      const { processed, cached, ms } = event;
      yield { type: 'progress', promptTokens: request.prompt.length, processed, cached, ms, timings };
    } else if (event.type === 'end') {
      const held = early.end();
      if (held !== '') yield told(held, timings);
      const { stopText } = event;
      const isCut = promptOnly || event.finishReason === 'length';
      const usage = promptOnly ? { ...event.usage, completion_tokens: 0 } : event.usage;
      const took = promptOnly ? { ...event.timings, decode_ms: 0 } : event.timings;
      const reason = isCut ? 'length' : 'stop';
      watcher.take({ type: 'end', choice, finishReason: reason, usage, timings: took });
      const why = isCut
        ? fillsContext
          ? { detail: contextFull }
          : {}
        : stopText === undefined
          ? {}
          : { stopText };
      yield { type: 'finish', reason, ...why, timings: toTimings({ usage, timings: took }) };
    } else if (!promptOnly) {
      const { text, over } = early.push(event.text);
      const { ids, logprobs = [] } = event;
      yield { ...told(text, timings), ids, logprobs: writeLogprobs(tokenizer, logprobs, true) };
      if (!over) continue;
      const { cache_n: cached_tokens, prompt_n, predicted_n: completion_tokens } = timings;
      const usage = { prompt_tokens: cached_tokens + prompt_n, completion_tokens, cached_tokens };
      // Ended before the engine reported its own timings.
      watcher.take({ type: 'end', choice, finishReason: 'length', usage, timings: undefined });
      yield { type: 'finish', reason: 'length', timings };
      return;
    }
  }
}
