import type { z } from 'zod';
import { type ChatUsage, writtenUsage } from '../../wires/chat/usage.ts';
import type { ChoiceEvent } from '../turn/choices.ts';
import {
  type PromptProgress,
  type Timings,
  toPromptProgress,
  toSharedTimings,
  toTimings,
} from '../turn/timings.ts';
import { toUsage } from '../turn/usage.ts';
import type { CompletionChunk } from './completions-schema.ts';
import type { streamMembers } from './request-schema.ts';

type Choice = CompletionChunk['choices'][number];
type End = Extract<ChoiceEvent, { type: 'end' }>;

interface More {
  readonly usage?: ChatUsage | null;
  readonly timings?: Timings;
  readonly prompt_progress?: PromptProgress;
}

/** How a stream of text completions is written. */
export interface ChunkForm<Head extends object> {
  /** What all chunks share. */
  readonly head: Head;
  /** The choices that an event becomes, a chunk each. */
  readonly toChoices: (event: ChoiceEvent) => Iterable<Choice>;
  /** Answers of each prompt. */
  readonly answers: number;
  readonly body: z.infer<z.ZodObject<typeof streamMembers>>;
}

/** Answers as the chunks of a stream; with `include_usage` a last one tells what they took. */
export async function* chunkStream<Head extends object>(
  events: AsyncIterable<ChoiceEvent>,
  { head, toChoices, answers, body }: ChunkForm<Head>,
): AsyncGenerator<object, void, undefined> {
  const includeUsage = body.stream_options?.include_usage === true;
  const chunk = (choices: readonly Choice[], more: More) => ({
    ...head,
    choices,
    ...(includeUsage ? { usage: null } : {}),
    ...more,
  });
  const ends: End[] = [];
  for await (const event of events) {
    const { measured } = event;
    const timed = measured && body.timings_per_token ? { timings: measured.timings } : {};
    if (event.type === 'prompt') {
      if (!measured || !body.return_progress) continue;
      const more = { ...timed, prompt_progress: toPromptProgress(measured.promptTokens, event) };
      for (const choice of toChoices(event)) yield chunk([choice], more);
      continue;
    }
    if (event.type !== 'end') {
      for (const choice of toChoices(event)) yield chunk([choice], timed);
      continue;
    }
    ends.push(event);
    const choices = [...toChoices(event)];
    for (const [index, choice] of choices.entries())
      yield chunk([choice], index === choices.length - 1 ? { timings: toTimings(event) } : timed);
  }
  if (includeUsage)
    yield chunk([], {
      usage: writtenUsage(toUsage(ends, answers)),
      timings: toSharedTimings(ends, answers),
    });
}
