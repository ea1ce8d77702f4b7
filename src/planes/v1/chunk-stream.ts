import type { z } from 'zod';
import type { ChatDelta } from '../../chat/index.ts';
import type { PromptProgress as EngineProgress, Timings as EngineTimings } from '../../engine/index.ts';
import type { Measured } from '../turn/choices.ts';
import {
  type PromptProgress,
  type Timings,
  toPromptProgress,
  toSharedTimings,
  toTimings,
} from '../turn/timings.ts';
import type { streamMembers } from './request-schema.ts';
import { type AnswerUsage, toUsage, type Usage } from './usage.ts';

interface Chunk<Choice> {
  readonly choices: readonly Choice[];
  readonly usage?: Usage | null;
  readonly timings?: Timings;
  readonly prompt_progress?: PromptProgress;
}

type End = { type: 'end'; timings: EngineTimings } & AnswerUsage;

/** How a wire writes a stream of answers. */
export interface ChunkForm<Event, Choice, Head extends object> {
  /** What all chunks share. */
  readonly head: Head;
  /** The choices that an event becomes, a chunk each. */
  readonly toChoices: (event: Event) => Iterable<Choice>;
  /** Answers of each prompt. */
  readonly answers: number;
  readonly body: z.infer<z.ZodObject<typeof streamMembers>>;
}

/** Answers as the chunks of a stream; with `include_usage` a last one tells what they took. */
export async function* chunkStream<
  Event extends Measured & ({ type: 'text' | ChatDelta['type'] } | EngineProgress | End),
  Choice,
  Head extends object,
>(
  events: AsyncIterable<Event>,
  { head, toChoices, answers, body }: ChunkForm<Event, Choice, Head>,
): AsyncGenerator<Head & Chunk<Choice>, void, undefined> {
  const includeUsage = body.stream_options?.include_usage === true;
  const chunk = (choices: readonly Choice[], more: Partial<Chunk<Choice>>) => ({
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
    yield chunk([], { usage: toUsage(ends, answers), timings: toSharedTimings(ends, answers) });
}
