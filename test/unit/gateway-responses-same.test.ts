import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { WireError } from '../../src/wires/core/error.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { openaiResponses } from '../../src/wires/responses/upstream.ts';
import { responsesPassthrough } from '../../src/wires/responses/passthrough.ts';
import type { SseFrame, UpstreamOptions } from '../../src/wires/core/wire.ts';
import { frame, payloadsOf } from '../support/gateway/frames.ts';
import { openApiDocument, schemaFaults } from '../support/gateway/schemas.ts';
import { aboutOf, clientRequest, receipt, testModel } from '../support/gateway-responses.ts';
import { describeShared } from '../support/shared.ts';

type Json = Record<string, unknown>;

const options: UpstreamOptions = { model: testModel(), stream: false, maxTokens: 900 };
const sent = (text: string, more: Partial<UpstreamOptions> = {}): string =>
  responsesPassthrough.request(clientRequest(text), { ...options, ...more }).text;
const sentBody = (body: Json, more: Partial<UpstreamOptions> = {}) =>
  JSON.parse(sent(JSON.stringify(body), more)) as Json;

describe('a request that passes through', () => {
  test('leaves everything else unchanged, byte for byte', () => {
    const text =
      '{ "input" : "h\\u00e9",\n "model":"house/model","temperature":1.0, "seed":12345678901234567890, "store":false,"max_output_tokens":900,"x":{"a" :[1e2]}}';
    expect(sent(text)).toBe(text.replace('"house/model"', '"gpt-upstream"'));
    expect(responsesPassthrough.request(clientRequest(text), options)).toMatchObject({
      path: '/responses',
      headers: {},
    });
  });

  test('always has a token limit and disables storage', () => {
    expect(sent('{"model":"m","input":"x"}')).toBe(
      '{"model":"gpt-upstream","input":"x","max_output_tokens":900,"store":false}',
    );
    expect(sent('{"model":"m","store":true,"input":"x","max_output_tokens":5000}')).toBe(
      '{"model":"gpt-upstream","store":false,"input":"x","max_output_tokens":900}',
    );
  });

  test('reasoning is requested encrypted where the gateway disables storage', () => {
    const model = testModel({ caps: ['chat', 'reasoning'] });
    const include = (body: Json) => sentBody({ model: 'm', input: 'x', ...body }, { model })['include'];
    expect(include({})).toEqual(['reasoning.encrypted_content']);
    expect(include({ store: true, include: ['message.output_text.logprobs'] })).toEqual([
      'message.output_text.logprobs',
      'reasoning.encrypted_content',
    ]);
    expect(include({ store: false })).toBeUndefined();
    expect(sentBody({ model: 'm', input: 'x' })).not.toHaveProperty('include');
  });

  test('effort is the nearest supported level', () => {
    const model = testModel({ efforts: ['low', 'medium', 'high'] });
    const reasoning = (body: Json, of = model) =>
      sentBody({ model: 'm', input: 'x', ...body }, { model: of });
    expect(reasoning({ reasoning: { effort: 'max', summary: 'auto' } })['reasoning']).toEqual({
      effort: 'high',
      summary: 'auto',
    });
    expect(reasoning({ reasoning: { max_tokens: 400 } })['reasoning']).toEqual({ effort: 'medium' });
    const aliased = reasoning({ reasoning_effort: 'minimal' });
    expect(aliased['reasoning']).toEqual({ effort: 'low' });
    expect(aliased).not.toHaveProperty('reasoning_effort');
    expect(reasoning({ reasoning: { effort: 'high' } }, testModel())).not.toHaveProperty('reasoning');
    const untouched = '"reasoning":{"summary" : "auto","effort":"low"}';
    expect(sent(`{"model":"m","input":"x",${untouched}}`, { model })).toContain(untouched);
    expect(() => reasoning({ reasoning: { effort: 'huge' } })).toThrow(
      expect.objectContaining({ status: 400 }),
    );
  });

  test("include_usage is the gateway's, other stream options are the provider's", () => {
    const streaming = (options_: Json) =>
      sentBody({ model: 'm', input: 'x', stream: true, stream_options: options_ }, { stream: true });
    expect(streaming({ include_usage: true })).not.toHaveProperty('stream_options');
    expect(streaming({ include_usage: false, include_obfuscation: false })['stream_options']).toEqual({
      include_obfuscation: false,
    });
  });

  test('hosted tools pass; encrypted reasoning of another provider does not', () => {
    const tools = [{ type: 'web_search' }, { type: 'custom', name: 'sql' }];
    const input = [
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'lathe:["signature","s"]' },
      { type: 'reasoning', id: 'rs_2', summary: [], encrypted_content: 'gAAAA' },
      { role: 'user', content: 'lathe: what is it?' },
    ];
    const body = sentBody({ model: 'm', input, tools });
    expect(body['tools']).toEqual(tools);
    expect(body['input']).toEqual(input.slice(1));
    // Behind a model of another family stands another gateway, which can undo them.
    const model = testModel({ family: 'anthropic' });
    expect(sentBody({ model: 'm', input }, { model })['input']).toEqual(input);
  });
});

const relay = (frames: readonly SseFrame[]) => {
  const stream = responsesPassthrough.stream(aboutOf());
  let text = '';
  const events: AnswerEvent[] = [];
  for (const each of [...frames.map((one) => () => stream.push(one)), () => stream.finish()]) {
    const made = each();
    text += made.text;
    events.push(...made.events);
  }
  return { stream, text, events };
};
const named = (event: Json) => frame(event, String(event['type']));
const created = {
  type: 'response.created',
  sequence_number: 0,
  response: { id: 'resp_9', object: 'response', status: 'in_progress', output: [] },
};
const delta = {
  type: 'response.output_text.delta',
  sequence_number: 1,
  output_index: 0,
  content_index: 0,
  delta: 'a',
  obfuscation: 'zz',
};
const usage = { input_tokens: 5, output_tokens: 3 };
const completed = {
  type: 'response.completed',
  sequence_number: 2,
  response: { ...created.response, status: 'completed', usage },
};

describe('a stream that passes through', () => {
  test('passes unchanged, byte for byte, and its usage is read', () => {
    const frames = [created, delta, completed].map(named);
    const spaced = frames.map((each) => ({ ...each, raw: `: hi\r\n${each.raw.replaceAll('\n', '\r\n')}` }));
    const { text, events, stream } = relay([...spaced, frame('[DONE]')]);
    expect(text).toBe(`${spaced.map(({ raw }) => raw).join('')}data: [DONE]\n\n`);
    expect(events).toEqual([
      { type: 'start', id: created.response.id },
      { type: 'text', text: 'a' },
      { type: 'usage', usage: { fresh: 5, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 0, output: 3 } },
      { type: 'finish', reason: 'stop' },
    ]);
    expect(stream.end(receipt)).toBe('');
  });

  test('an error after the last event is not sent to the caller', () => {
    const { stream } = relay([created, completed].map(named));
    expect(stream.fail(new WireError(504, 'upstream_error', 'Slow.'))).toBe('');
  });

  test('redundant events are not parsed', () => {
    const silent = ['response.in_progress', 'response.output_text.done', 'response.output_item.done'];
    const { events, text } = relay([...silent.map((type) => frame('{not json', type)), named(completed)]);
    expect(text).toContain('{not json');
    expect(events.map(({ type }) => type)).toEqual(['usage', 'finish']);
  });

  test('a truncated stream ends with an in-band error that continues the sequence numbers', () => {
    const { stream, events, text } = relay([created, delta].map(named));
    const failure = events.at(-1);
    if (failure?.type !== 'failure') throw new Error('no failure');
    const reported = payloadsOf(text + stream.fail(failure.error));
    expect(reported.slice(2)).toMatchObject([
      { type: 'error', sequence_number: 2, error: { type: 'upstream_error', code: 'upstream_failed' } },
      {
        type: 'response.failed',
        sequence_number: 3,
        response: { id: 'resp_9', status: 'failed', error: { code: 'server_error' } },
      },
    ]);
    expect(stream.fail(failure.error)).toBe('');
    expect(stream.push(named(delta))).toEqual({ text: '', events: [] });
  });

  const secret = `sk-proj-${'a1B2'.repeat(10)}`;
  const words = { type: 'server_error', code: 'server_error', message: `Broken for ${secret}.`, param: null };
  const error = { type: 'error', sequence_number: 2, error: words };
  const failed = {
    type: 'response.failed',
    sequence_number: 3,
    response: { ...created.response, status: 'failed', error: words, usage },
  };

  test.each([
    ['named', (events: readonly Json[]) => events.map(named)],
    ['nameless', (events: readonly Json[]) => events.map((event) => frame(event))],
  ])("the provider's error message is sent without secrets (%s)", (_, asFrames) => {
    const { stream, events, text } = relay(asFrames([created, delta, error, failed]));
    expect(events.map(({ type }) => type).filter((type) => type !== 'start')).toEqual([
      'text',
      'usage',
      'failure',
    ]);
    const failure = events.at(-1);
    if (failure?.type !== 'failure') throw new Error('no failure');
    const whole = text + stream.fail(failure.error);
    expect(whole).not.toContain('a1B2a1B2');
    expect(payloadsOf(whole)).toMatchObject([
      { type: 'response.created' },
      { type: 'response.output_text.delta' },
      { type: 'error', sequence_number: 2 },
      { type: 'response.failed', sequence_number: 3, response: { id: 'resp_9', status: 'failed', usage } },
    ]);
  });

  test('a stream that failed before the first event is replaced by an error stream', () => {
    const { stream, text } = relay([named(error)]);
    expect(text).toBe('');
    const reported = payloadsOf(stream.fail(new WireError(502, 'upstream_error', 'Down.')));
    expect(reported.map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
      'error',
      'response.failed',
    ]);
  });
});

const folderName = 'data/cassettes/openai-responses';
describeShared('recorded traffic that passes through', [folderName, openApiDocument], (folder) => {
  const files = readdirSync(folder);
  const recorded = (name: string) => readFileSync(`${folder}/${name}`, 'utf8');

  test.each(files.filter((name) => name.endsWith('.chunks.txt') && !name.startsWith('parallel')))(
    '%s',
    (name) => {
      const lines = recorded(name)
        .split('\n')
        .filter((line) => line.trim() !== '');
      const last = lines.slice(lines.findLastIndex((line) => line.includes('"response.created"')));
      for (const isNamed of [true, false]) {
        const frames = last.map((line) => {
          const { type } = JSON.parse(line) as { type: string };
          return frame(line, isNamed ? type : undefined);
        });
        const { text, events } = relay(frames);
        expect(text).toBe(frames.map(({ raw }) => raw).join(''));
        const upstream = openaiResponses.reader();
        const all = frames.flatMap((each) => upstream.push(each));
        const ends = ({ type }: AnswerEvent) => type === 'usage' || type === 'finish';
        expect(events.filter(ends)).toEqual(all.filter(ends));
        expect(events.filter(ends)).toHaveLength(2);
      }
    },
  );

  test.each(files.filter((name) => name.endsWith('.json') && !name.includes('error')))('%s', (name) => {
    const body = recorded(name);
    const { text, events } = responsesPassthrough.answer(body, aboutOf());
    expect(text).toBe(body);
    const used = (JSON.parse(body) as { usage: Json }).usage;
    const reported = events.find((event) => event.type === 'usage');
    if (!reported) throw new Error('no usage');
    const { fresh, cacheRead, output } = reported.usage;
    expect([fresh + cacheRead, output]).toEqual([used['input_tokens'], used['output_tokens']]);
  });

  test('a failure after recorded traffic has the format of the wire', () => {
    const lines = recorded('openai-shell-container-multiturn.1.chunks.txt').trim().split('\n').slice(0, 8);
    const { stream } = relay(lines.map((line) => named(JSON.parse(line) as Json)));
    for (const event of payloadsOf(stream.fail(new WireError(504, 'upstream_error', 'Slow.')))) {
      // OpenAI sends a user of null against its own schema.
      const faults = schemaFaults('responses', 'chunk', event).filter((each) => !each.includes('/user'));
      expect(faults).toEqual([]);
    }
  });
});
