/** Ollama's lines and llama.cpp's objects: an answer's events in, text out. */
import { describe, expect, it } from 'vitest';
import { HttpError } from '../../src/http/error.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { llamaError } from '../../src/wires/llama-cpp/error.ts';
import {
  contextFullDetail,
  type LlamaCppAnswerMetadata,
  llamaCppWire,
} from '../../src/wires/llama-cpp/writer.ts';
import {
  formatChatPiece,
  formatGeneratePiece,
  type OllamaAnswerMetadata,
  ollamaWire,
} from '../../src/wires/ollama/writer.ts';
import { dataOf } from '../support/resident-about.ts';

const timings = {
  cache_n: 2,
  prompt_n: 3,
  prompt_ms: 1,
  prompt_per_token_ms: 1,
  prompt_per_second: 1,
  predicted_n: 4,
  predicted_ms: 1,
  predicted_per_token_ms: 1,
  predicted_per_second: 1,
};
const usage = { fresh: 3, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 2, output: 4 };
const gone = new HttpError(503, 'shutting_down', 'the host stops');

describe("Ollama's wire", () => {
  const clock = {
    now: () => 'now',
    loadDurations: () => ({}),
    durations: ({ predicted_n }: typeof timings) => ({ eval_count: predicted_n }),
  };
  const about: OllamaAnswerMetadata = { model: 'm', clock, formatPiece: formatChatPiece };
  const ends = (reason: 'stop' | 'length'): AnswerEvent[] => [
    { type: 'usage', usage, timings },
    { type: 'finish', reason },
  ];
  const linesOf = (events: readonly AnswerEvent[], of = about) => {
    const writer = ollamaWire.writer(of);
    const text = [...events.map((event) => writer.write(event)), writer.end()].join('');
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
  };
  const head = { model: 'm', created_at: 'now' };

  it('tells a call in one piece, before what follows it', () => {
    const events: AnswerEvent[] = [
      { type: 'reasoning', text: 'hm' },
      { type: 'tool_call', index: 0, id: 'a', name: 'add' },
      { type: 'tool_arguments', index: 0, text: '{"x":' },
      { type: 'tool_arguments', index: 0, text: '1}' },
      { type: 'text', text: 'done' },
      ...ends('stop'),
    ];
    const call = { id: 'a', function: { index: 0, name: 'add', arguments: { x: 1 } } };
    const role = 'assistant';
    expect(linesOf(events)).toEqual([
      { ...head, message: { role, content: '', thinking: 'hm' }, done: false },
      { ...head, message: { role, content: '', tool_calls: [call] }, done: false },
      { ...head, message: { role, content: 'done' }, done: false },
      { ...head, message: { role, content: '' }, done: true, done_reason: 'stop', eval_count: 4 },
    ]);
    expect(ollamaWire.body(events, about)).toEqual({
      ...head,
      message: { role, content: 'done', thinking: 'hm', tool_calls: [call] },
      done: true,
      done_reason: 'stop',
      eval_count: 4,
    });
  });

  it('leaves a call that the end cut through as text, and has further members at the end', () => {
    const events: AnswerEvent[] = [
      { type: 'tool_call', index: 0, id: 'a', name: 'add' },
      { type: 'tool_arguments', index: 0, text: '{"x":' },
      ...ends('length'),
    ];
    const generates = { ...about, formatPiece: formatGeneratePiece, finalMembers: () => ({ context: [1] }) };
    expect(linesOf(events, generates)).toEqual([
      { ...head, response: '{"x":', done: false },
      { ...head, response: '', done: true, done_reason: 'length', context: [1], eval_count: 4 },
    ]);
  });

  it('says what broke in a last line', () => {
    expect(ollamaWire.writer(about).fail(gone)).toBe('{"error":"the host stops"}\n');
  });
});

describe("llama.cpp's wire", () => {
  const about = (body: object, isArray = false) =>
    ({
      model: 'm',
      body,
      isArray,
      requestMembers: (choice: number) => ({ prompt: `p${choice}`, generation_settings: {} }),
    }) as unknown as LlamaCppAnswerMetadata;
  const entry = { id: 7, token: 'a', bytes: [97], logprob: 0, top_logprobs: [] };
  const events: AnswerEvent[] = [
    { type: 'text', choice: 1, text: 'b\n', ids: [8], timings },
    { type: 'text', choice: 0, text: 'a', ids: [7], logprobs: [entry], timings },
    { type: 'finish', choice: 1, reason: 'length', detail: contextFullDetail, timings },
    { type: 'finish', choice: 0, reason: 'stop', stopText: '!', timings },
  ];

  it('answers in the order of the prompts, with tokens where they are asked for', () => {
    const wanted = about({ return_tokens: true, post_sampling_probs: true });
    expect(llamaCppWire.body(events, wanted)).toMatchObject([
      {
        index: 0,
        content: 'a',
        tokens: [7],
        prompt: 'p0',
        stop_type: 'word',
        stopping_word: '!',
        tokens_cached: 2,
        tokens_evaluated: 5,
        truncated: false,
        completion_probabilities: [{ id: 7, token: 'a', bytes: [97], prob: 1, top_probs: [] }],
      },
      { index: 1, content: 'b\n', tokens: [8], stop_type: 'limit', truncated: true, has_new_line: true },
    ]);
    expect(llamaCppWire.body(events, about({}))).toMatchObject([{ tokens: [] }, { tokens: [] }]);
  });

  it('picks members of the last object; one answer is no list unless it was one of several', () => {
    const one = events.filter(({ choice }) => choice === 0);
    const fields = { response_fields: ['timings/cache_n', 'content', 'nothing'] };
    expect(llamaCppWire.body(one, about(fields))).toEqual({ 'timings/cache_n': 2, content: 'a' });
    expect(llamaCppWire.body(one, about({}, true))).toMatchObject([{ content: 'a' }]);
  });

  it('streams pieces, and a last object of each answer without its content', () => {
    const writer = llamaCppWire.writer(about({ timings_per_token: true }));
    const frames = dataOf<object>(events.map((event) => writer.write(event)).join('') + writer.end());
    expect(frames).toMatchObject([
      { index: 1, content: 'b\n', tokens: [8], stop: false, timings },
      { index: 0, content: 'a', tokens: [7], stop: false, completion_probabilities: [entry] },
      { index: 1, content: '', tokens: [], stop: true, has_new_line: true },
      { index: 0, content: '', tokens: [], stop: true, has_new_line: false },
    ]);
  });

  it('says what broke, with a type that goes with the status', () => {
    const [errorData] = dataOf<object>(llamaCppWire.writer(about({})).fail(gone));
    expect(llamaError.strict().parse(errorData).error).toMatchObject({
      code: 503,
      type: 'unavailable_error',
    });
  });
});
