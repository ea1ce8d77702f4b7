import { until } from '../until.ts';
import { writeTable } from './document.ts';

/** What users of an SDK rely on, in the order of the table. */
export const features = {
  buffered: 'answer in one piece',
  streamed: 'streamed answer, the same text for the same seed',
  usage: 'token counts, buffered and streamed',
  tool: 'tool call',
  toolStreamed: 'tool call, streamed',
  toolLoop: 'tool result goes back, the model answers',
  schema: 'answer bound to a JSON schema',
  stop: 'stop text',
  logprobs: 'log probabilities',
  several: 'several answers or prompts',
  middle: 'fill in the middle',
  embeddings: 'embeddings',
  models: 'list of models',
  abort: 'abort in the middle frees the model',
  image: 'an image is refused in words',
  unknown: "another model is refused, as the client's own error",
  invalid: 'bad values are refused, each by its name',
} as const;
export type Feature = keyof typeof features;

/** Where the hosts of a run are. */
export interface Places {
  /** The embedded model. */
  readonly url: string;
  /** A model for embeddings. */
  readonly embedder: string;
}

/** A client, and what it was made to do; a feature that its wire does not have is absent. */
export interface Client {
  readonly name: string;
  readonly checks: Readonly<Partial<Record<Feature, (places: Places) => Promise<void>>>>;
}

/** The table of clients in docs/compatibility.md. */
export const table = (clients: readonly Client[]): string =>
  writeTable([
    ['', ...clients.map(({ name }) => name)],
    ...Object.entries(features).map(([feature, words]) => [
      words,
      ...clients.map(({ checks }) => (feature in checks ? 'yes' : '-')),
    ]),
  ]);

export const question = 'What is the capital of Italy?';
export const answerOf = /Rome/;
/** Its answer has a word to stop at. */
export const stopWord = 'capital';

export const weather = {
  name: 'get_weather',
  description: 'The weather in a city',
  parameters: {
    type: 'object' as const,
    properties: { city: { type: 'string' as const, maxLength: 30 } },
    required: ['city'],
    additionalProperties: false,
  },
};
export const weatherQuestion = 'What is the weather in Rome?';
export const weatherAnswer = /sunny/i;
/** As the embedded model was taught. */
export const weatherResult = '{"temperature": 21, "sky": "sunny"}';

export const gap = {
  before: 'In a house near the kitchen lived Mia, an owl. It was raining. One day ',
  after: ' got lost in the village. Where is my home? asked Mia.',
  middle: 'Mia',
};

export const person = {
  type: 'object' as const,
  properties: {
    name: { type: 'string' as const, maxLength: 20 },
    age: { type: 'integer' as const, minimum: 0, maximum: 150 },
  },
  required: ['name', 'age'],
  additionalProperties: false,
};
export const personQuestion = 'Give the name and age as JSON: Ana is 41 years old.';

/** The smallest PNG. */
export const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

export function checkPerson(text: string): void {
  const value = JSON.parse(text) as { name: unknown; age: unknown };
  const { name, age } = value;
  const isOne = typeof name === 'string' && Number.isInteger(age) && Object.keys(value).length === 2;
  if (!isOne) throw new Error(`not a person: ${text}`);
}

export function checkWeatherCall(name: string | undefined, args: unknown): void {
  const { city } = (typeof args === 'string' ? JSON.parse(args) : args) as { city: unknown };
  if (name !== weather.name || typeof city !== 'string')
    throw new Error(`not a call: ${name} ${JSON.stringify(args)}`);
}

/** Counts answers that came to their end. */
async function servedAnswers({ url }: Places): Promise<number> {
  const info = (await (await fetch(`${url}/host/v1/info`)).json()) as { completions_served: number };
  return info.completions_served;
}

/**
 * Begins an answer and leaves it with `leave`: then nothing runs any more, and the answer is not counted as served. The model may
 * end its answer before the client has left, so there are several attempts; without cancellation, all of them end.
 */
export async function checkFreed(places: Places, leave: () => Promise<unknown>): Promise<void> {
  for (let attempt = 0; attempt < 5; attempt++) {
    const before = await servedAnswers(places);
    await leave();
    await until(async () => {
      const slots = (await (await fetch(`${places.url}/slots`)).json()) as { is_processing: boolean }[];
      return slots.every(({ is_processing }) => !is_processing);
    }, 'the model stops after the client disconnects');
    if ((await servedAnswers(places)) === before) return;
  }
  throw new Error('the answer ran to its end although the client disconnected');
}
