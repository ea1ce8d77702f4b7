import { describe, expect, it } from 'vitest';
import type { Usage } from '../../src/wires/core/types.ts';
import { chatWire } from '../../src/wires/chat/client.ts';
import { chatPassthrough } from '../../src/wires/chat/passthrough.ts';
import { openaiChat } from '../../src/wires/chat/upstream.ts';
import { completionsWire } from '../../src/wires/completions/client.ts';
import { completionsPassthrough } from '../../src/wires/completions/passthrough.ts';
import { composeTranslation } from '../../src/wires/core/compose-translation.ts';
import { cassettesPath, interactions, recordedBody, recordedFrames } from '../support/gateway/cassettes.ts';
import { aboutOf, clientRequestOn, contentsOf, through } from '../support/gateway/chat.ts';
import { framesOf, payloadsOf } from '../support/gateway/frames.ts';
import { openApiDocument, schemaFaults } from '../support/gateway/schemas.ts';
import { describeShared } from '../support/shared.ts';

const request = (includeUsage: boolean) =>
  clientRequestOn(chatWire, {
    model: 'm',
    stream: true,
    messages: [{ role: 'user', content: 'hi' }],
    stream_options: { include_usage: includeUsage },
  });
const through2 = composeTranslation(chatWire, openaiChat);

type Counted = { prompt_tokens: number; completion_tokens: number; total_tokens: number };
const totalOf = ({ fresh, cacheWrite, cacheWrite1h, cacheRead, output }: Usage) =>
  fresh + cacheWrite + cacheWrite1h + cacheRead + output;
const usageOf = (events: readonly { type: string }[]) =>
  (events.findLast(({ type }) => type === 'usage') as { usage: Usage } | undefined)?.usage;

const streams: readonly [string, () => ReturnType<typeof framesOf>][] = [
  ...[
    'openai/chat-streaming',
    'openai/chat-streaming-detailed-usage',
    'openai/chat-streaming-web-search',
  ].map((name) => [name, () => framesOf(interactions(name)[0]?.response ?? '')] as const),
  ...[
    'deepseek-chat/deepseek-text',
    'mistral/mistral-text',
    'mistral/mistral-incremental-tool-call',
    'openai-compatible-chat/xai-tool-call',
    'openai-compatible-chat/anthropic-fallback-tool-call',
  ].map((name) => [name, () => recordedFrames(name)] as const),
] as [string, () => ReturnType<typeof framesOf>][];

describeShared('recorded chat streams', [cassettesPath(), openApiDocument], () => {
  it.each(streams)('%s passes, unchanged where valid, with the recorded usage', (_, frames) => {
    const recorded = frames();
    const usages = recorded
      .filter(({ data }) => data !== '[DONE]')
      .map(({ data }) => JSON.parse(data) as { choices: unknown[]; usage?: Counted | null })
      .filter(({ usage }) => usage);
    for (const includeUsage of [true, false])
      for (const translation of [chatPassthrough, through2]) {
        const { text, events } = through(translation.stream(aboutOf(request(includeUsage))), recorded);
        const chunks = payloadsOf<{ choices: unknown[]; usage?: Counted | null }>(text);
        for (const chunk of chunks) expect(schemaFaults('chat', 'chunk', chunk)).toEqual([]);
        expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
        expect(text).not.toContain('event:');
        expect(events.some(({ type }) => type === 'failure')).toBe(false);
        expect(events.filter(({ type }) => type === 'finish').length).toBe(1);

        const counted = usages.at(-1)?.usage;
        const usage = usageOf(events);
        if (counted && usage) expect(totalOf(usage)).toBe(counted.total_tokens);
        else expect(usage).toBeUndefined();
        const usageChunks = chunks.filter(({ usage: each }) => each);
        expect(usageChunks.length).toBe(includeUsage && counted ? 1 : 0);
        for (const chunk of usageChunks) expect(chunk.choices).toEqual([]);
        if (usageChunks.length > 0) expect(chunks.at(-1)).toBe(usageChunks[0]);
        if (includeUsage) for (const chunk of chunks) expect(chunk).toHaveProperty('usage');

        const again = openaiChat.reader();
        const reread = [...framesOf(text).flatMap((each) => again.push(each)), ...again.end()];
        expect(contentsOf(reread)).toEqual(contentsOf(events));
      }
  });

  it('leaves the chunks of OpenAI unchanged, except for a null that its own schema does not allow', () => {
    const [recorded] = interactions('openai/chat-streaming');
    const { text } = through(
      chatPassthrough.stream(aboutOf(request(false))),
      framesOf(recorded?.response ?? ''),
    );
    expect(text).toBe(recorded?.response.replaceAll('"system_fingerprint":null,', ''));
  });

  it('counts the reasoning tokens that xAI reports in addition to the completion', () => {
    const { events } = through(
      chatPassthrough.stream(aboutOf(request(false))),
      recordedFrames('openai-compatible-chat/xai-tool-call'),
    );
    expect(usageOf(events)).toEqual({
      fresh: 1,
      cacheWrite: 0,
      cacheWrite1h: 0,
      cacheRead: 306,
      output: 26 + 227,
      reasoning: 227,
    });
  });
});

const bodies = [
  'azure-chat-basic chat-audio-to-text chat-basic chat-detailed-usage chat-image-to-text chat-json-mode chat-multimodal',
  'chat-multiturn chat-openai-agents-python chat-parallel-tools chat-reasoning chat-text-to-audio chat-text-to-image-tool',
  'chat-tools chat-web-search chat-bad-request chat-no-messages chat-unknown-model',
]
  .flatMap((line) => line.split(' '))
  .map((name) => `openai/${name}`);

describeShared('recorded chat bodies', [cassettesPath(), openApiDocument], () => {
  const check = (text: string) => {
    const recorded = JSON.parse(text) as { usage: Counted; choices: { message: { content: unknown } }[] };
    const about = aboutOf(request(false));
    for (const translation of [chatPassthrough, through2]) {
      const answer = translation.answer(text, about);
      const body = JSON.parse(answer.text) as typeof recorded;
      expect(schemaFaults('chat', 'body', body)).toEqual([]);
      const usage = usageOf(answer.events);
      expect(usage && totalOf(usage)).toBe(recorded.usage.total_tokens);
      expect(body.choices[0]?.message.content || null).toEqual(recorded.choices[0]?.message.content || null);
    }
    const same = JSON.parse(chatPassthrough.answer(text, about).text) as object;
    // Nothing is lost, and nothing that was there is changed.
    expect(same).toMatchObject(withoutNulls(recorded) as object);
  };

  it.each(bodies)('%s', (name) => {
    for (const { status, response, headers, path } of interactions(name)) {
      if (!path.endsWith('/chat/completions')) continue;
      if (status === 200) check(response);
      else {
        const { error } = openaiChat.failure(status, response, headers);
        expect(error.status).toBe(status === 404 ? 502 : 400);
        const providerMessage = (JSON.parse(response) as { error: { message: string } }).error.message;
        expect(error.message).toContain(providerMessage.slice(0, 40));
      }
    }
  });

  it.each([
    'deepseek-chat/deepseek-text',
    'deepseek-chat/deepseek-json',
    'mistral/mistral-text',
    'openai-compatible-chat/xai-tool-call',
  ])('%s', (name) => check(recordedBody(name)));
});

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== null)
      .map(([key, each]) => [key, withoutNulls(each)]),
  );
}

describeShared('recorded text completions', [cassettesPath(), openApiDocument], () => {
  it.each([
    'completion-basic',
    'completion-suffix',
    'completion-text-batch',
    'completion-token-batch',
    'completion-token',
    'completion-streaming',
    'completion-streaming-usage',
    'completion-bad-request',
    'completion-unknown-model',
  ])('%s', (name) => {
    for (const { status, request: text, response, headers } of interactions(`openai/${name}`)) {
      if (status !== 200) {
        expect(completionsPassthrough.failure(status, response, headers).error.status).toBe(
          status === 404 ? 502 : 400,
        );
        continue;
      }
      const clientRequest = clientRequestOn(completionsWire, JSON.parse(text) as object);
      const about = aboutOf(clientRequest);
      if (!clientRequest.facts.stream) {
        const answer = completionsPassthrough.answer(response, about);
        expect(JSON.parse(answer.text)).toEqual(JSON.parse(response));
        const recorded = JSON.parse(response) as { usage: Counted; choices: unknown[] };
        expect(totalOf(usageOf(answer.events) as Usage)).toBe(recorded.usage.total_tokens);
        expect(recorded.choices.length).toBe(clientRequest.facts.answers);
        continue;
      }
      const { text: passed, events } = through(completionsPassthrough.stream(about), framesOf(response));
      for (const chunk of payloadsOf(passed)) expect(schemaFaults('completions', 'chunk', chunk)).toEqual([]);
      expect(events.at(-1)?.type).not.toBe('failure');
      expect(passed).toBe(response);
    }
  });
});

describe('cassettes', () => it('are read from beside the repository', () => expect(bodies.length).toBe(18)));
