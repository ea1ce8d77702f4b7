import OpenAI from 'openai';
import { expect } from 'vitest';
import { z } from 'zod';
import { completionAnswer } from '../../../src/wires/llama-cpp/answer-schema.ts';
import type { Script } from '../scripted-engine.ts';
import { readEvents, type scriptedServers } from '../serve.ts';

export const hi = [{ role: 'user', content: 'hi' }];
export const json = z.record(z.string(), z.unknown());

/** What the checks ask hosts with, each of which has an engine with its own script. */
export function askingWith(serve: ReturnType<typeof scriptedServers>) {
  async function ask(path: string, body: object, script: Script = {}) {
    const { post } = await serve(script);
    const response = await post(path, body);
    return { status: response.status, body: await response.json() };
  }
  async function completionOf(body: object, script?: Script) {
    return completionAnswer.parse((await ask('/completion', body, script)).body);
  }
  async function streamOf(path: string, body: object, script: Script = {}) {
    const { post } = await serve(script);
    const lines = await readEvents(await post(path, { ...body, stream: true }));
    return lines.filter((line) => line !== '[DONE]').map((line) => json.parse(JSON.parse(line)));
  }
  async function isRefused(path: string, body: object, script?: Script) {
    const { status, body: answer } = await ask(path, body, script);
    expect([status, Object.keys(answer as object)], JSON.stringify(body)).toEqual([400, ['error']]);
  }
  async function clientAt(script: Script = {}) {
    return new OpenAI({ baseURL: `${(await serve(script)).url}/v1`, apiKey: 'none', maxRetries: 0 });
  }
  return { serve, ask, completionOf, streamOf, isRefused, clientAt };
}
type Asking = ReturnType<typeof askingWith>;

/** Something that a test of llama.cpp's server expects. */
export interface Row {
  /** The file, `test_X.py`. */
  readonly tests: string;
  readonly promise: string;
  /** Absent: `instead` says what happens here. */
  readonly check?: (asking: Asking) => Promise<void>;
  readonly instead?: string;
}
export const row = (tests: string, promise: string, check: NonNullable<Row['check']>): Row => ({
  tests,
  promise,
  check,
});
export const other = (tests: string, promise: string, instead: string): Row => ({ tests, promise, instead });
