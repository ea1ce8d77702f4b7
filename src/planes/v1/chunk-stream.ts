import { type AnswerUsage, toUsage, type Usage } from './usage.ts';

interface Chunk<Choice> {
  readonly choices: readonly Choice[];
  readonly usage?: Usage | null;
}

/** How a wire writes a stream of answers. */
export interface ChunkForm<Event, Choice, Head extends object> {
  /** What all chunks share. */
  readonly head: Head;
  /** The choices that an event becomes, a chunk each. */
  readonly toChoices: (event: Event) => Iterable<Choice>;
  readonly includeUsage: boolean;
  /** Answers of each prompt. */
  readonly answers: number;
}

/** Answers as the chunks of a stream; with `includeUsage` a last one tells what they took. */
export async function* chunkStream<
  Event extends { type: string } | ({ type: 'end' } & AnswerUsage),
  Choice,
  Head extends object,
>(
  events: AsyncIterable<Event>,
  { head, toChoices, includeUsage, answers }: ChunkForm<Event, Choice, Head>,
): AsyncGenerator<Head & Chunk<Choice>, void, undefined> {
  const chunk = (choices: readonly Choice[], usage: Usage | null = null) => ({
    ...head,
    choices,
    ...(includeUsage ? { usage } : {}),
  });
  const ends: AnswerUsage[] = [];
  for await (const event of events) {
    if ('usage' in event) ends.push(event);
    for (const choice of toChoices(event)) yield chunk([choice]);
  }
  if (includeUsage) yield chunk([], toUsage(ends, answers));
}
