import type {
  FinishReason,
  GenerationEvent,
  Timings as EngineTimings,
  TokenLogprob,
  Usage,
} from '../../engine/index.ts';
import { type Answering, generateChoices, type TextRequest } from '../turn/choices.ts';
import { type PromptProgress, type Timings, toTimings, Watch } from '../turn/timings.ts';
import { EarlyEnd, type EarlyEnds } from './early-end.ts';

/** One answer to make. */
export interface Job {
  readonly request: TextRequest;
  readonly ends: EarlyEnds;
  /** Only the prompt is wanted, for later answers; the engine draws a token that nobody sees. */
  readonly promptOnly: boolean;
  /** The limit is what the context leaves, and the request asks for more. */
  readonly fillsContext: boolean;
}

export type RunEvent =
  | {
      readonly type: 'prompt';
      readonly progress: PromptProgress;
      readonly timings: Timings;
    }
  | {
      readonly type: 'text';
      readonly text: string;
      readonly ids: readonly number[];
      readonly logprobs: readonly TokenLogprob[];
      /** Of the answer so far. */
      readonly timings: Timings;
    }
  | {
      readonly type: 'end';
      readonly finishReason: FinishReason;
      /** What ended it, where that was a text. */
      readonly stopText: string | undefined;
      readonly truncated: boolean;
      readonly usage: Usage;
      /** Undefined where an early end did not wait for the engine's own numbers. */
      readonly timings: EngineTimings | undefined;
      /** As the wire writes them. */
      readonly told: Timings;
    };

/** One answer, ended where an early end wants it. */
export async function* run(
  answering: Answering,
  { request, ends, promptOnly, fillsContext }: Job,
  signal: AbortSignal,
): AsyncGenerator<RunEvent, void, undefined> {
  const watch = new Watch(request.prompt.length);
  const early = new EarlyEnd(ends);
  for await (const event of generateChoices(answering, { ...request, progress: true }, signal)) {
    if (event.type === 'prompt') {
      yield { type: 'prompt', progress: watch.take(event), timings: watch.timings() };
      continue;
    }
    if (event.type === 'text') {
      if (promptOnly) continue;
      watch.count(event.ids.length);
      const { text, over } = early.push(event.text);
      yield { type: 'text', text, ids: event.ids, logprobs: event.logprobs ?? [], timings: watch.timings() };
      if (!over) continue;
      const usage = {
        prompt_tokens: request.prompt.length,
        completion_tokens: watch.predicted,
        cached_tokens: watch.cached,
      };
      const end = { type: 'end', finishReason: 'length', stopText: undefined, truncated: false } as const;
      yield { ...end, usage, timings: undefined, told: watch.timings() };
      return;
    }
    const held = early.end();
    if (held !== '') yield { type: 'text', text: held, ids: [], logprobs: [], timings: watch.timings() };
    yield toEnd(event, promptOnly, fillsContext);
  }
}

function toEnd(
  { finishReason, stopText, usage, timings }: Extract<GenerationEvent, { type: 'end' }>,
  promptOnly: boolean,
  fillsContext: boolean,
): RunEvent {
  const predicted = promptOnly ? 0 : usage.completion_tokens;
  const isLimit = promptOnly || finishReason === 'length';
  const told = { ...usage, completion_tokens: predicted };
  const taken = promptOnly ? { ...timings, decode_ms: 0 } : timings;
  return {
    type: 'end',
    finishReason: isLimit ? 'length' : 'stop',
    stopText: isLimit ? undefined : stopText,
    truncated: isLimit && fillsContext,
    usage: told,
    timings: taken,
    told: toTimings({ usage: told, timings: taken }),
  };
}
