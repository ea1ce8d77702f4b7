import type { IncomingMessage, ServerResponse } from 'node:http';
import { serve } from './local-server.ts';

/** What the server answers one request with; everything has a default. */
export interface ScriptedAnswer {
  readonly text?: string;
  readonly reasoning?: string;
  readonly calls?: readonly ScriptedCall[];
  /** Default: `tool_calls` where there are calls, else `stop`. */
  readonly finish?: string;
  /** Default: 10 for the prompt and one for each four characters; null leaves it out. */
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
  /** Before the answer, and before each of its chunks. */
  readonly delayMs?: number;
  readonly chunkMs?: number;
  /** An error instead, with this status and body. */
  readonly status?: number;
  readonly error?: unknown;
  /** Leaves in the middle, after this many chunks. */
  readonly breakAfter?: number;
  /** An error as a chunk of the stream, after all others. */
  readonly streamError?: unknown;
  /** Sends exactly this instead of events. */
  readonly raw?: { readonly contentType: string; readonly body: string };
  /** Sends nothing at all and never ends. */
  readonly hang?: boolean;
}

export interface ScriptedCall {
  readonly id?: string;
  readonly name: string;
  /** An object, or a text as it is. */
  readonly arguments?: unknown;
}

/** What was asked. */
export interface ScriptedRequest {
  readonly body: {
    readonly model: string;
    readonly messages: readonly {
      readonly role: string;
      readonly content: string | null;
      readonly tool_call_id?: string;
      readonly tool_calls?: readonly unknown[];
    }[];
    readonly tools?: readonly { readonly function: { readonly name: string; readonly parameters: object } }[];
    readonly tool_choice?: unknown;
    readonly response_format?: unknown;
    readonly max_tokens: number;
    readonly max_completion_tokens?: number;
    readonly temperature?: number;
    readonly seed?: number;
  };
  readonly authorization: string | undefined;
  readonly traceparent: string | undefined;
}

/** In order, the last one again and again; or one for each request. */
export type OpenAiScript =
  | readonly ScriptedAnswer[]
  | ((request: ScriptedRequest, index: number) => ScriptedAnswer | Promise<ScriptedAnswer>);

const one = (header: string | string[] | undefined) => (Array.isArray(header) ? header[0] : header);

/** A local server of OpenAI's chat completions with scripted answers. */
export async function scriptedOpenAi(script: OpenAiScript) {
  const requests: ScriptedRequest[] = [];
  let left = 0;
  const server = await serve((request, response) => {
    response.on('close', () => {
      if (!response.writableFinished) left += 1;
    });
    void handle(request, response).catch(() => response.destroy());
  });
  const handle = async (incoming: IncomingMessage, response: ServerResponse) => {
    const request: ScriptedRequest = {
      body: JSON.parse(await bodyOf(incoming)) as ScriptedRequest['body'],
      authorization: incoming.headers.authorization,
      traceparent: one(incoming.headers['traceparent']),
    };
    const index = requests.push(request) - 1;
    const answer =
      typeof script === 'function' ? await script(request, index) : (script[index] ?? script.at(-1) ?? {});
    await say(answer, response);
  };
  return {
    /** For `[gateway] url`. */
    url: `${server.url}/v1`,
    requests,
    /** Answers whose reader went away. */
    get left() {
      return left;
    },
    close: () => server.close(),
  };
}

async function say(answer: ScriptedAnswer, response: ServerResponse): Promise<void> {
  if (answer.hang) return;
  await sleep(answer.delayMs);
  if (answer.status !== undefined) {
    const error = answer.error ?? { message: `scripted ${answer.status}` };
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error }));
    return;
  }
  if (answer.raw) {
    response.writeHead(200, { 'content-type': answer.raw.contentType });
    response.end(answer.raw.body);
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const [index, chunk] of chunksOf(answer).entries()) {
    if (index === answer.breakAfter) {
      response.destroy();
      return;
    }
    await sleep(answer.chunkMs);
    await new Promise<unknown>((resolve) => response.write(`data: ${JSON.stringify(chunk)}\n\n`, resolve));
    if (response.destroyed) return;
  }
  response.end(answer.streamError === undefined ? 'data: [DONE]\n\n' : '');
}

function chunksOf(answer: ScriptedAnswer): object[] {
  const { text = '', reasoning = '', calls = [], usage, streamError } = answer;
  const chunk = (delta: object, finish: string | null = null) => ({
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const written = calls.map(({ id, name, arguments: args = {} }, index) => ({
    index,
    id: id ?? `call_${index}`,
    name,
    text: typeof args === 'string' ? args : JSON.stringify(args),
  }));
  const counted = {
    prompt_tokens: 10,
    completion_tokens: Math.ceil((text + reasoning + written.map((call) => call.text).join('')).length / 4),
  };
  return [
    ...pieces(reasoning).map((content) => chunk({ reasoning: content })),
    ...pieces(text).map((content) => chunk({ content })),
    ...written.flatMap((call) => [
      chunk({
        tool_calls: [{ index: call.index, id: call.id, function: { name: call.name, arguments: '' } }],
      }),
      ...pieces(call.text).map((piece) =>
        chunk({ tool_calls: [{ index: call.index, function: { arguments: piece } }] }),
      ),
    ]),
    ...(streamError === undefined
      ? [chunk({}, answer.finish ?? (calls.length > 0 ? 'tool_calls' : 'stop'))]
      : [{ error: streamError }]),
    ...(usage === null ? [] : [{ choices: [], usage: usage ?? counted }]),
  ];
}

const pieces = (text: string): string[] => text.match(/[^]{1,12}/gu) ?? [];

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

const sleep = (ms = 0) =>
  ms === 0 ? Promise.resolve() : new Promise<void>((resolve) => setTimeout(resolve, ms));
