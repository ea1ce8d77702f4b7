import type { AnswerEvent, Timings } from '../../wires/core/answer.ts';
import { contextFullDetail } from '../../wires/llama-cpp/writer.ts';
import { type GenerationResources, generateChoices, type TextRequest } from '../turn/choices.ts';
import { writeLogprobs } from '../turn/logprobs.ts';
import { toTimings } from '../turn/timings.ts';
import type { AnswerTracer } from '../turn/answer-tracer.ts';
import { EarlyStop, type EarlyStopOptions } from './early-stop.ts';

/** One answer to generate. */
export interface AnswerJob {
  readonly request: TextRequest;
  readonly earlyStop: EarlyStopOptions;
  /** Only the prompt is evaluated, for later answers; the engine samples one token that is not returned. */
  readonly isPromptOnly: boolean;
  /** The token limit is the remaining context, and the request asks for more. */
  readonly fillsContext: boolean;
}

/** Context of an answer. */
interface AnswerContext {
  readonly resources: GenerationResources;
  readonly choice: number;
  readonly tracer: AnswerTracer;
  readonly signal: AbortSignal;
}

/** Generates one answer and applies its early stop conditions. */
export async function* generateAnswer(
  { request, earlyStop, isPromptOnly, fillsContext }: AnswerJob,
  { resources, choice, tracer, signal }: AnswerContext,
): AsyncGenerator<AnswerEvent, void, undefined> {
  const { tokenizer } = resources.engine;
  const earlyStopper = new EarlyStop(earlyStop);
  const toTextEvent = (text: string, timings: Timings) => {
    tracer.record({ type: 'text', choice, text });
    return { type: 'text', text, timings } as const;
  };
  for await (const event of generateChoices(resources, { ...request, progress: true }, signal)) {
    const timings = event.measured?.timings as Timings;
    if (event.type === 'prompt') {
      const { processed, cached, ms } = event;
      yield { type: 'progress', promptTokens: request.prompt.length, processed, cached, ms, timings };
    } else if (event.type === 'end') {
      const heldText = earlyStopper.end();
      if (heldText !== '') yield toTextEvent(heldText, timings);
      const { stopText } = event;
      const isCut = isPromptOnly || event.finishReason === 'length';
      const usage = isPromptOnly ? { ...event.usage, completion_tokens: 0 } : event.usage;
      const engineTimings = isPromptOnly ? { ...event.timings, decode_ms: 0 } : event.timings;
      const reason = isCut ? 'length' : 'stop';
      tracer.record({ type: 'end', choice, finishReason: reason, usage, timings: engineTimings });
      const reasonMembers = isCut
        ? fillsContext
          ? { detail: contextFullDetail }
          : {}
        : stopText === undefined
          ? {}
          : { stopText };
      yield {
        type: 'finish',
        reason,
        ...reasonMembers,
        timings: toTimings({ usage, timings: engineTimings }),
      };
    } else if (!isPromptOnly) {
      const { text, isFinished } = earlyStopper.push(event.text);
      const { ids, logprobs = [] } = event;
      yield { ...toTextEvent(text, timings), ids, logprobs: writeLogprobs(tokenizer, logprobs, true) };
      if (!isFinished) continue;
      const { cache_n: cached_tokens, prompt_n, predicted_n: completion_tokens } = timings;
      const usage = { prompt_tokens: cached_tokens + prompt_n, completion_tokens, cached_tokens };
      // Ended before the engine reported its own timings.
      tracer.record({ type: 'end', choice, finishReason: 'length', usage, timings: undefined });
      yield { type: 'finish', reason: 'length', timings };
      return;
    }
  }
}
