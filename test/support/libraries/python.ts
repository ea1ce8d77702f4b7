import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { checkAbandoned, type Library } from './checks.ts';
import {
  answer,
  introduction,
  nameAnswer,
  nameQuestion,
  person,
  personCallQuestion,
  personName,
  personQuestion,
  question,
  storyQuestion,
  twoCitiesAnswer,
  twoCitiesQuestion,
  weatherAnswer,
  weatherQuestion,
  weatherResult,
  weatherTool,
} from './conversation.ts';
import type { Place } from './places.ts';

const program = fileURLToPath(new URL('./python/clients.py', import.meta.url));
const environment = fileURLToPath(new URL('../../../.cache/python', import.meta.url));

/** A Python that has the clients: the one of `npm run setup:python`, or the system's. */
function findPython(): string | undefined {
  const test =
    'import importlib.util as u, sys; sys.exit(not (u.find_spec("openai") and u.find_spec("anthropic")))';
  const candidates = [`${environment}/bin/python`, `${environment}/Scripts/python.exe`, 'python3'];
  return candidates.find((path) => spawnSync(path, ['-c', test]).status === 0);
}

const python = findPython();
const missing = python === undefined ? 'Python clients are not installed: npm run setup:python' : undefined;

let child: ChildProcess | undefined;
let lines: AsyncIterator<string> | undefined;
let reader: Interface | undefined;

interface Result {
  readonly value?: unknown;
  readonly error?: string;
  readonly status?: number;
}

type Wire = 'chat' | 'responses' | 'messages';

/** Runs an operation in the one process that all tests share: it takes a second to start. */
async function run(
  wire: Wire,
  { url, key, model }: { url: string; key: string; model: string },
  operation: string,
  args: object,
): Promise<Result> {
  if (child === undefined) {
    child = spawn(python ?? '', [program], { stdio: ['pipe', 'pipe', 'inherit'] });
    if (child.stdout === null) throw new Error('no output');
    reader = createInterface({ input: child.stdout });
    lines = reader[Symbol.asyncIterator]();
  }
  child.stdin?.write(`${JSON.stringify({ wire, url, key, model, operation, arguments: args })}\n`);
  const line = await lines?.next();
  if (line === undefined || line.done) throw new Error(`${operation} of ${wire} ended the Python program`);
  return JSON.parse(line.value) as Result;
}

/** Ends the process, if a test started it. */
export async function endPython(): Promise<void> {
  if (child === undefined) return;
  const ended = new Promise((resolve) => child?.once('exit', resolve));
  child.stdin?.end();
  await ended;
  reader?.close();
  child = undefined;
}

const weather = {
  name: weatherTool,
  description: 'The weather in a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const results = { Rome: weatherResult, Oslo: `${weatherResult} in Oslo` };

function pythonClient(name: string, wire: Wire): Library {
  const at = (place: Place) => ({ url: place.url, key: place.key, model: place[wire] });
  const valueOf = async (place: Place, operation: string, args: object) => {
    const { value, ...error } = await run(wire, at(place), operation, args);
    expect(error).toEqual({});
    return value as never;
  };
  const converse = (
    place: Place,
    text: string,
    streams: boolean,
  ): Promise<{ calls: unknown; text: string }> =>
    valueOf(place, 'converse', { text, weather, results, streams });
  return {
    name,
    places: ['host', 'gateway'],
    hostOnly: ['stored'],
    missing,
    checks: {
      async buffered(place) {
        expect(await valueOf(place, 'ask', { text: question })).toMatchObject({ text: answer });
      },
      async streamed(place) {
        const { pieces }: { pieces: string[] } = await valueOf(place, 'stream', { text: question });
        expect(pieces.join('')).toBe(answer);
        expect(pieces.length).toBeGreaterThan(3);
      },
      async usage(place) {
        const buffered: { usage: number[] } = await valueOf(place, 'ask', { text: question });
        const streamed: { usage: number[] } = await valueOf(place, 'stream', { text: question });
        expect(streamed.usage).toEqual(buffered.usage);
        for (const tokens of buffered.usage) expect(tokens).toBeGreaterThan(3);
      },
      async tool(place) {
        const expected = { calls: [{ city: 'Rome' }], text: weatherAnswer };
        expect(await converse(place, weatherQuestion, false)).toEqual(expected);
      },
      async toolStreamed(place) {
        const expected = { calls: [{ city: 'Rome' }], text: weatherAnswer };
        expect(await converse(place, weatherQuestion, true)).toEqual(expected);
      },
      async parallel(place) {
        const expected = { calls: [{ city: 'Rome' }, { city: 'Oslo' }], text: twoCitiesAnswer };
        for (const streams of [false, true])
          expect(await converse(place, twoCitiesQuestion, streams)).toEqual(expected);
      },
      async schema(place) {
        expect(await valueOf(place, 'parse', { text: personQuestion })).toEqual(person);
      },
      async schemaCall(place) {
        expect(await valueOf(place, 'call', { text: personCallQuestion, name: personName })).toEqual(person);
      },
      ...(wire === 'responses' && {
        async stored(place: Place) {
          expect(await valueOf(place, 'continue_stored', { texts: [introduction, nameQuestion] })).toBe(
            nameAnswer,
          );
        },
      }),
      ...(wire === 'chat' && {
        async embeddings(place: Place) {
          const embedding = { ...at(place), model: place.embeddings };
          const { value } = await run(wire, embedding, 'embed', { texts: ['a', 'b'] });
          const vectors = value as number[][];
          expect(vectors).toHaveLength(2);
          for (const vector of vectors) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
        },
      }),
      async unknown(place) {
        const result = await run(wire, { ...at(place), model: 'gpt-9' }, 'ask', { text: question });
        expect(result).toEqual({ error: 'NotFoundError', status: 404 });
      },
      async badKey(place) {
        const result = await run(wire, { ...at(place), key: 'wrong-key' }, 'ask', { text: question });
        expect(result).toEqual({ error: 'AuthenticationError', status: 401 });
      },
      abort: (place) => checkAbandoned(place, () => valueOf(place, 'leave', { text: storyQuestion })),
    },
  };
}

export const pythonLibraries: readonly Library[] = [
  pythonClient('Python openai, chat', 'chat'),
  pythonClient('Python openai, responses', 'responses'),
  pythonClient('Python anthropic', 'messages'),
];
