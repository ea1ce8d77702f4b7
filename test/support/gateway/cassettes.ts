import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { SseFrame } from '../../../src/wires/core/wire.ts';
import { sharedPath } from '../shared.ts';
import { frame, framesOf } from './frames.ts';

/** An exchange that was recorded with a real provider. */
export interface Interaction {
  readonly path: string;
  readonly request: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly response: string;
}

/** Below the data beside the repository; for `describeShared`. */
export const cassettesPath = (name = ''): string => `data/cassettes/${name}`;

/** Absolute. @throws Error where the data is absent */
function pathOf(name: string): string {
  const path = sharedPath(cassettesPath(name));
  if (path === undefined) throw new Error(`there is no ../shared/${cassettesPath(name)}`);
  return path;
}

/** A recorded buffered body. @param name such as `google/google-text` */
export const recordedBody = (name: string): string => readFileSync(pathOf(`${name}.json`), 'utf8');

/** A recorded stream. @param name as `google/google-text`, with `.chunks.txt` or `.sse` */
export function recordedFrames(name: string): SseFrame[] {
  if (sharedPath(cassettesPath(`${name}.sse`)) !== undefined)
    return framesOf(ended(readFileSync(pathOf(`${name}.sse`), 'utf8')));
  const payloads = readFileSync(pathOf(`${name}.chunks.txt`), 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '');
  const frames = payloads.map((payload) => frame(payload, typeIn(payload)));
  const chat = payloads.some((payload) => payload.includes('"chat.completion.chunk"'));
  return chat ? [...frames, frame('[DONE]')] : frames;
}

function typeIn(payload: string): string | undefined {
  try {
    return (JSON.parse(payload) as { type?: string }).type;
  } catch {
    // One recording has a line that is not JSON.
    return undefined;
  }
}

/** The exchanges of one of OpenAI's. @param name as `openai/chat-basic` */
export function interactions(name: string): Interaction[] {
  const { interactions: all } = parse(readFileSync(pathOf(`${name}.yaml`), 'utf8')) as {
    interactions: readonly {
      request: { url: string; body: string };
      response: { code: number; body: string; headers: Record<string, string[]> };
    }[];
  };
  return all.map(({ request, response }) => ({
    path: new URL(request.url).pathname.replace(/^(\/openai)?\/v1/, ''),
    request: request.body,
    status: response.code,
    headers: Object.fromEntries(
      Object.entries(response.headers).map(([key, values]) => [key.toLowerCase(), values.join(', ')]),
    ),
    response: response.body,
  }));
}

export interface Recording {
  readonly status: number;
  readonly contentType: string;
  /** A whole body, or the frames of a stream. */
  readonly body: string | readonly SseFrame[];
}

/**
 * What was recorded under a name, whatever its file's kind.
 * @param stream which of the two, where there is a body and a stream
 * @param exchange the n-th, where there are several
 */
export function recording(name: string, stream: boolean, exchange = 0): Recording {
  const has = (ending: string) => sharedPath(cassettesPath(name + ending)) !== undefined;
  if (has('.yaml')) {
    const found = interactions(name)[exchange];
    if (!found) throw new Error(`${name}.yaml has no exchange ${exchange}`);
    const contentType = found.headers['content-type'] ?? 'application/json';
    const streamed = contentType.startsWith('text/event-stream');
    return {
      status: found.status,
      contentType,
      body: streamed ? framesOf(ended(found.response)) : found.response,
    };
  }
  if (stream && (has('.chunks.txt') || has('.sse')))
    return { status: 200, contentType: 'text/event-stream', body: recordedFrames(name) };
  const body = recordedBody(name);
  const { error } = JSON.parse(body) as { error?: { code?: unknown } };
  const status = error ? (typeof error.code === 'number' ? error.code : 400) : 200;
  return { status, contentType: 'application/json', body };
}

const ended = (stream: string): string => `${stream.trimEnd()}\n\n`;
